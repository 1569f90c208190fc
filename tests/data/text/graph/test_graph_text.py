"""Normalisation in the graph equals Python's."""

import functools
import sys
import unicodedata

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from common.vocabularies.text_settings import TextSettings
from data.text.graph import graph_text
from data.text.graph.graph_text import GraphNormalizer, encode
from tests.data.text.graph.hard_texts import VARIANTS

SURROGATES = range(0xD800, 0xE000)


def python_normalize(text: str, options: TextSettings) -> str:
    """The rules once more, by whole-string methods."""
    if options.remove_space:
        text = " ".join(text.split())
    text = text.replace("``", '"').replace("''", '"')
    if not options.keep_accents:
        text = unicodedata.normalize("NFKD", text)
        text = "".join(c for c in text if not unicodedata.combining(c))
    return text.lower() if options.uncased else text


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


@pytest.mark.long
@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.lists(HARD | st.text(max_size=8), max_size=4))
def test_normalization_equals_python(texts):
    batch = tf.constant([t.encode() for t in texts], tf.string, [len(texts)])
    for variant, options in VARIANTS.items():
        got = encode(normalizer_of(variant)(batch)).numpy()
        wanted = [python_normalize(t, options) for t in texts]
        assert [t.decode() for t in got] == wanted, variant


@functools.cache
def normalizer_of(variant):
    return GraphNormalizer(VARIANTS[variant])


def test_invalid_utf8_is_refused():
    with pytest.raises(tf.errors.InvalidArgumentError):
        GraphNormalizer(TextSettings())(tf.constant([b"ok", b"a\xff"]))
