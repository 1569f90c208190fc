"""Tokenization in the graph equals the original's and Python's, bit for bit."""

import json
import pathlib
import random

import pytest
import sentencepiece
import tensorflow as tf

from data.text.graph.graph_tokenizer import GraphTokenizer
from data.text.tokenizer import Tokenizer
from tests.data.text.graph.hard_texts import VARIANTS


@pytest.fixture(scope="module")
def cases(golden):
    with open(golden / "text" / "encode.json") as f:
        return json.load(f)["cases"]


@pytest.fixture(scope="module")
def tokenizers(spiece_model):
    model = pathlib.Path(spiece_model).read_bytes()
    return {name: GraphTokenizer(model, o) for name, o in VARIANTS.items()}


@pytest.mark.shared
@pytest.mark.parametrize("variant", VARIANTS)
def test_ids_equal_the_original(cases, tokenizers, variant):
    texts = tf.constant([c["text"].encode() for c in cases])
    wanted = [c[variant]["ids"] for c in cases]
    assert tokenizers[variant].tokenize(texts).to_list() == wanted
    normalized = tokenizers[variant].normalize(texts).numpy()
    assert [t.decode() for t in normalized] == [
        c[variant]["preprocessed"] for c in cases
    ]


@pytest.mark.shared
def test_offsets_lie_in_the_raw_text(cases, tokenizers):
    texts = [c["text"] for c in cases]
    batch = tf.constant([t.encode() for t in texts])
    for variant in VARIANTS:
        ids, starts, ends = tokenizers[variant].tokenize_with_offsets(batch)
        assert ids.to_list() == [c[variant]["ids"] for c in cases]
        for text, begins, finishes in zip(
            texts, starts.to_list(), ends.to_list(), strict=True
        ):
            assert all(
                0 <= b <= e <= len(text)
                for b, e in zip(begins, finishes, strict=True)
            )
            # Spans begin in order; no raw word is left out of all of them.
            assert begins == sorted(begins)
            covered = set()
            for b, e in zip(begins, finishes, strict=True):
                covered |= set(range(b, e))
            lost = [
                c
                for i, c in enumerate(text)
                if i not in covered and c.isascii() and c.isalnum()
            ]
            assert not lost, (variant, text, lost)


@pytest.mark.shared
def test_offsets_of_hard_cases(tokenizers):
    text = "  I owe 12,000, \ufb01ne \u2167 e\u0301a"
    ids, starts, ends = tokenizers["cased"].tokenize_with_offsets(
        tf.constant([text.encode()])
    )
    pieces = [
        text[b:e]
        for b, e in zip(starts[0].numpy(), ends[0].numpy(), strict=True)
    ]
    assert pieces.count("\ufb01") >= 1
    assert pieces.count("\u2167") >= 2, "VIII shares the numeral's span"
    # The comma of "000," stands alone.
    assert "," in pieces


@pytest.mark.shared
def test_empty_batches_and_rows(tokenizers):
    tokenizer = tokenizers["cased"]
    assert tokenizer.tokenize(tf.constant([], tf.string)).to_list() == []
    ids, starts, ends = tokenizer.tokenize_with_offsets(
        tf.constant(["", " ", "\x00", ""])
    )
    assert [len(r) for r in ids.to_list()] == [0, 0, len(ids[2]), 0]
    assert starts.row_lengths().numpy().tolist() == [0, 0, len(ids[2]), 0]


@pytest.mark.shared
@pytest.mark.parametrize("variant", VARIANTS)
def test_offsets_equal_the_offline_tokenizer(
    cases, tokenizers, spiece_model, variant
):
    options = VARIANTS[variant]
    offline = Tokenizer(spiece_model, options)
    texts = [c["text"] for c in cases] + [
        "  I owe 12,000, ``\ufb01ne'' \u2167 e\u0301\u0302a  ",
        "\u0301leading mark",
        "\u03a3\u03a3 \uac00\uac01 trailing \u00a0",
        "",
    ]
    got = tokenizers[variant].tokenize_with_offsets(
        tf.constant([t.encode() for t in texts])
    )
    got = [x.to_list() for x in got]
    for row, text in enumerate(texts):
        wanted = offline.encode_with_offsets(text)
        for a, b in zip(got, wanted, strict=True):
            assert a[row] == list(b), ascii(text)


@pytest.mark.parametrize("variant", ["cased", "keep_accents"])
@pytest.mark.parametrize("known", ["", "9 4", ","])
def test_digits_and_commas_that_no_piece_has(tmp_path, variant, known):
    """Such vocabularies of a language with digits of its own can be exported."""
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([f"abc de {known} fgh\u0967 ij"] * 20),
        model_prefix=str(tmp_path / "spiece"),
        vocab_size=40,
        hard_vocab_limit=False,
        control_symbols=["<cls>", "<sep>", "<pad>", "<mask>", "<eod>", "<eop>"],
        minloglevel=2,
    )
    path = tmp_path / "spiece.model"
    offline = Tokenizer(str(path), VARIANTS[variant])
    graph = GraphTokenizer(path.read_bytes(), VARIANTS[variant])
    draw = random.Random(5)
    parts = [
        "9,",
        "\u0967",
        ",",
        "z",
        "a",
        " ",
        "\u00bd",
        "\uff19",
        "\uff0c",
        "4",
    ]
    texts = ["".join(draw.choices(parts, k=9)) for _ in range(200)]
    texts += [
        "",
        ",",
        "9,",
        "x9,",
        "2,000 in 12,",
        "\u0967,\u0967",
        "9,,",
        " 9,a",
    ]
    found = [x.to_list() for x in graph.tokenize_with_offsets(texts)]
    assert graph.tokenize(texts).to_list() == found[0]
    for text, *row in zip(texts, *found, strict=True):
        assert row == list(map(list, offline.encode_with_offsets(text))), text
