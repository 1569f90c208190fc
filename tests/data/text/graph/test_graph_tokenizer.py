"""Tokenization in the graph equals the original's and Python's, bit for bit."""

import functools
import json
import pathlib
import sys
import unicodedata

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from common.vocabularies.text_settings import TextSettings
from data.text.graph import graph_text
from data.text.graph.graph_text import GraphNormalizer, encode
from data.text.graph.graph_tokenizer import GraphTokenizer
from data.text.tokenizer import Tokenizer

SURROGATES = range(0xD800, 0xE000)

VARIANTS = {
    "cased": TextSettings(),
    "uncased": TextSettings(uncased=True),
    "keep_accents": TextSettings("composed"),
    "uncased_keep_accents": TextSettings("composed", True),
    "no_remove_space": TextSettings(remove_space=False),
}


def python_normalize(text: str, options: TextSettings) -> str:
    """The rules once more, by whole-string methods."""
    if options.remove_space:
        text = " ".join(text.split())
    text = text.replace("``", '"').replace("''", '"')
    if not options.keep_accents:
        text = unicodedata.normalize("NFKD", text)
        text = "".join(c for c in text if not unicodedata.combining(c))
    return text.lower() if options.uncased else text


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


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_code_point(variant):
    """Alone between letters, so that no neighbour can hide a difference."""
    points = [p for p in range(sys.maxunicode + 1) if p not in SURROGATES]
    texts = ["a" + chr(p) + "b" for p in points]
    normalizer = GraphNormalizer(VARIANTS[variant])
    for at in range(0, len(texts), 1 << 18):
        some = texts[at : at + (1 << 18)]
        got = encode(normalizer(tf.constant([t.encode() for t in some])))
        wanted = [python_normalize(t, VARIANTS[variant]) for t in some]
        for text, a, b in zip(some, got.numpy(), wanted, strict=True):
            assert a.decode() == b, ascii(text)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_page_that_is_passed_over_holds_no_change(variant):
    """Every sixteenth page, and all of the first 12,288 characters."""
    passed, options = 0, VARIANTS[variant]
    for number, (first, chars) in enumerate(graph_text.code_pages()):
        if first >= 0x3000 and number % 16:
            continue
        if graph_text._all_stay(chars, options):
            passed += 1
            assert all(graph_text._rewrite(c, options) == c for c in chars)
    assert passed > 200


HARD = st.text(
    alphabet=st.sampled_from(
        list(
            "aB\u03a3\u03c3 \t\n`'\"\u0301\u0345\u00ad.,12\u00a0\u2028\x00\u1e9b"
        )
        + list("\ufb01\u2167\uac00\u0130\u00df\ufdfa\U0001d54f\u3000\x1c\u0660")
    ),
    max_size=14,
)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.lists(HARD | st.text(max_size=8), max_size=4))
def test_normalization_equals_python(texts):
    batch = tf.constant([t.encode() for t in texts], tf.string, [len(texts)])
    for variant, options in VARIANTS.items():
        got = encode(_normalizer(variant)(batch)).numpy()
        wanted = [python_normalize(t, options) for t in texts]
        assert [t.decode() for t in got] == wanted, variant


@functools.cache
def _normalizer(variant):
    return GraphNormalizer(VARIANTS[variant])


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


def test_invalid_utf8_is_refused():
    with pytest.raises(tf.errors.InvalidArgumentError):
        GraphNormalizer(TextSettings())(tf.constant([b"ok", b"a\xff"]))


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
