"""SentencePiece's table of characters in a graph beside the package."""

import base64
import struct

import numpy as np
import pytest
import tensorflow as tf

from data.text.graph import charsmap, graph_text
from data.text.graph.charsmap import CharsMap
from data.text.released.charsmap import probe

tokenizers = pytest.importorskip("tokenizers")
TEXTS = (
    *("a", "aa\u0301b", "a\u0301\u0316", "\ta\u0301", "\r\na", "\u0600a\u0301"),
    *("\u1112\u1161\u11ab\u0301", "\u0915\u0940a\u0940", "a\u200d\ufe0f", ""),
    *("\u00e9a\u0301", "a\u0301", "\u0301a", "a\u0488\u0301a", "\U0001f1e9a"),
)


@pytest.mark.parametrize("new", ["", "x", "xyz"])
@pytest.mark.parametrize("key", ["a", "\u0301", "\u00e9", "\u1112"])
def test_texts_of_one_key_are_the_packages(key, new):
    table = probe(key, new)
    normalizer = tokenizers.normalizers.Precompiled(table)
    rewrite = CharsMap(base64.b64encode(table).decode())
    flat = graph_text.decode(tf.constant(TEXTS))
    found = graph_text.encode(rewrite(flat, graph_text.changes(flat.rows)))
    assert [t.decode() for t in found.numpy()] == [
        normalizer.normalize_str(text) for text in TEXTS
    ]


def test_what_joins_and_what_divides():
    index, pages = charsmap._joining()

    def kind(char):
        point = ord(char)
        return pages[index[point // graph_text.PAGE], point % graph_text.PAGE]

    assert kind("\u0301") == kind("\u0940") == kind("\u200d") == charsmap._JOINS
    assert kind("\u0600") == charsmap._JOINS_NEXT
    assert kind("\n") == kind("\x1c") == kind("\u2028") == charsmap._DIVIDES
    assert kind("a") == kind("\u1161") == kind("\u00e9") == kind(" ") == 0


def _placed(old, lengths, segments):
    source, offset = graph_text.expand(tf.constant(lengths))
    found = charsmap._places(
        tf.constant(old),
        tf.constant(lengths),
        source,
        offset,
        tf.constant(segments),
    )
    return found.numpy().tolist()


def test_places_of_texts_that_grow_and_shrink():
    one = [True, False, False]
    assert _placed([1, 1, 1], [1, 1, 1], one) == [0, 1, 2]
    assert _placed([1, 1, 1], [3, 1, 1], one) == [0, 0, 0, 1, 2]
    # A grapheme of two becomes one, or three.
    assert _placed([2, 0, 1], [1, 0, 1], one) == [0, 2]
    assert _placed([2, 0, 1], [3, 0, 1], one) == [0, 1, 1, 2]
    # The last of three stands for the one that is lost.
    assert _placed([1, 1, 1], [3, 0, 1], one) == [0, 0, 1, 2]
    # What is lost before there is a character is not counted.
    assert _placed([1, 1, 1], [0, 1, 1], one) == [0, 1]
    two = [True, True, False]
    assert _placed([1, 1, 1], [1, 0, 1], two) == [0, 1]
    assert _placed([1, 1, 1], [3, 0, 1], two) == [0, 0, 0, 1]


def test_no_text_and_no_key_of_several_characters():
    rewrite = CharsMap(base64.b64encode(probe("a", "b")).decode())
    flat = graph_text.decode(tf.constant([], tf.string))
    found = rewrite(flat, graph_text.changes(flat.rows))
    assert found.points.shape == [0]
    assert np.asarray(struct.unpack("<I", probe("a", "b")[:4])) == 4 * 768
