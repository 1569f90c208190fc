"""Byte-level BPE in the graph beside the package `tokenizers`."""

import json
import pathlib
import random

import pytest
import tensorflow as tf

from common.errors import UserError
from data.text import opening
from data.text.graph import bpe
from tests.data.text.graph.hard_texts import differences, hard
from tests.helpers import released

WORDS = ["the", "river", "boating", "aaaa", "1999", "don't", "\u6771\u4eac"]


@pytest.fixture(scope="module", params=[False, True], ids=["bare", "space"])
def path(request, tmp_path_factory):
    """Of a small tokenizer.json; the other one adds spaces, composes not."""
    pytest.importorskip("tokenizers")
    folder = tmp_path_factory.mktemp("bpe")
    return released.byte_level(folder, request.param, not request.param)


@pytest.mark.long
def test_ids_and_offsets_are_the_packages(path):
    offline = opening.open_tokenizer(path)
    texts = released.random_texts(600, WORDS, seed=3)
    assert not differences(offline, hard(300) + texts)


@pytest.mark.slow
def test_ten_thousand_strings(path):
    offline = opening.open_tokenizer(path)
    words = [offline.decode([i]) for i in range(offline.vocab_size)]
    texts = released.random_texts(10_000, words, seed=5)
    assert not differences(offline, hard(2000) + texts)


@pytest.mark.long
def test_no_text_at_all(path):
    graph = opening.graph_tokenizer(opening.open_tokenizer(path))
    assert graph.tokenize(tf.constant([], tf.string)).to_list() == []
    assert graph.tokenize(tf.constant(["", ""])).to_list() == [[], []]


def test_pieces_and_text_of_ids(path):
    offline = opening.open_tokenizer(path)
    graph = opening.graph_tokenizer(offline)
    text = "the wide [MASK] r\u00edver"
    ids = graph.tokenize(tf.constant([text]))
    pieces = graph.id_to_piece(ids).to_list()[0]
    assert [p.decode() for p in pieces] == [
        offline.id_to_piece(i) for i in offline.encode(text)
    ]
    assert graph.detokenize(ids).numpy()[0].decode().split() == (
        offline.decode(offline.encode(text)).split()
    )
    assert graph.vocab_size == offline.vocab_size


def _planted(path, tmp_path, change) -> str:
    rules = json.loads(pathlib.Path(path).read_text())
    change(rules)
    planted = tmp_path / "tokenizer.json"
    planted.write_text(json.dumps(rules))
    return str(planted)


@pytest.mark.long
def test_pieces_of_two_ways_are_merged_one_at_a_time(path, tmp_path):
    """`abc` of two ways: what waits for the first may come before the second."""

    def change(rules):
        model = rules["model"]
        pairs = [["a", "b"], ["ab", "c"], ["abc", "a"], ["b", "c"], ["a", "bc"]]
        model["merges"] = [["b", "c"], ["ab", "c"], ["abc", "a"], ["a", "bc"]]
        for piece in map("".join, pairs):
            model["vocab"].setdefault(piece, 1000 + len(model["vocab"]))

    offline = opening.open_tokenizer(_planted(path, tmp_path, change))
    assert bpe.parse(offline).merges.one_at_a_time
    assert not bpe.parse(opening.open_tokenizer(path)).merges.one_at_a_time
    draw = random.Random(3)
    texts = ["".join(draw.choices("abc", k=12)) for _ in range(60)]
    assert not differences(offline, ["abcabcabca", *texts])


@pytest.mark.long
def test_bytes_without_a_piece_are_unknown(path, tmp_path):
    def change(rules):
        rules["model"]["unk_token"] = "[UNK]"
        for char in "zq":
            del rules["model"]["vocab"][char]

    offline = opening.open_tokenizer(_planted(path, tmp_path, change))
    texts = ["zq zz the q", "quiz"]
    assert offline.symbols.unk in offline.encode(texts[0])
    assert not differences(offline, texts)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda r: r["added_tokens"][4].update(rstrip=True), "is rstrip"),
        (lambda r: r.update(normalizer={"type": "NFKC"}), "a normalizer of"),
        (
            lambda r: r.update(pre_tokenizer={"type": "WhitespaceSplit"}),
            "the pre_tokenizer ByteLevel",
        ),
        (
            lambda r: r["pre_tokenizer"].update(use_regex=False),
            "the pre_tokenizer ByteLevel",
        ),
        (lambda r: r["model"].update(dropout=0.1), "without dropout"),
        (lambda r: r["model"]["vocab"].pop("z"), "a piece for every byte"),
    ],
)
def test_rules_that_no_graph_has_are_one_line(path, tmp_path, change, words):
    offline = opening.open_tokenizer(_planted(path, tmp_path, change))
    for check in (opening.check_graph, opening.graph_tokenizer):
        with pytest.raises(UserError, match=words) as caught:
            check(offline)
        assert "\n" not in str(caught.value)


def _pair_of_files(path, folder):
    """`vocab.json` and `merges.txt` of a tokenizer.json."""
    rules = json.loads(pathlib.Path(path).read_text())
    model = rules["model"]
    folder.mkdir()
    vocab = model["vocab"] | {
        t["content"]: t["id"] for t in rules["added_tokens"]
    }
    (folder / "vocab.json").write_text(json.dumps(vocab))
    lines = ["#version: 0.2", *(" ".join(pair) for pair in model["merges"])]
    (folder / "merges.txt").write_text("\n".join(lines) + "\n")
    config = {"add_prefix_space": rules["pre_tokenizer"]["add_prefix_space"]}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return str(folder / "vocab.json")


def test_vocab_json_and_merges_stand_for_a_tokenizer_json(path, tmp_path):
    alone = opening.open_tokenizer(_pair_of_files(path, tmp_path / "pair"))
    whole = opening.open_tokenizer(path)
    for text in ("the wide river", "don't [SEP] 1999", "Gr\u00f6\u00dfe"):
        assert alone.encode(text) == whole.encode(text)
    assert alone.symbols == whole.symbols
    opening.check_graph(alone)


def test_merges_that_do_not_fit_are_one_line(path, tmp_path):
    vocab = pathlib.Path(_pair_of_files(path, tmp_path / "pair"))
    merges = vocab.parent / "merges.txt"
    first = merges.read_text().split("\n")[1]
    merges.write_text(f"#version: 0.2\n{first}\nzz qq\n")
    with pytest.raises(UserError, match=r"merges.txt:3: wanted two pieces"):
        opening.open_tokenizer(str(vocab))
    merges.unlink()
    with pytest.raises(UserError, match="wanted merges.txt beside it"):
        opening.open_tokenizer(str(vocab))
    vocab.write_text('{"a": "b"}')
    with pytest.raises(UserError, match="not an object of piece and id"):
        opening.open_tokenizer(str(vocab))
