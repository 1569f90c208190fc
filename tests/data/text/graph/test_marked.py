"""What the graphs of Unigram and of BPE by characters share."""

import numpy as np
import pytest
import tensorflow as tf

from data.text.graph import marked
from data.text.graph.graph_text import CODE_POINTS, Flat

pytest.importorskip("tokenizers")


def _flat(points, rows):
    at = tf.range(len(points))
    return Flat(
        points=tf.constant(points),
        rows=tf.constant(rows),
        starts=at,
        ends=at + 1,
        count=tf.constant(max(rows) + 1),
    )


def test_a_mark_stands_before_every_text_but_not_before_added_tokens():
    token = CODE_POINTS
    flat = marked._with_marks(
        _flat([ord("a"), token, ord("b"), ord(" ")], [0, 0, 0, 1])
    )
    mark = marked._MARK
    assert flat.points.numpy().tolist() == [
        *(mark, ord("a"), token, mark, ord("b"), mark, ord(" "))
    ]
    assert flat.starts.numpy().tolist() == [0, 0, 1, 2, 2, 3, 3]


def test_of_several_spaces_one_is_left_with_the_last_place():
    text = _flat([ord(c) for c in "a  b   "], [0, 0, 0, 0, 0, 1, 1])
    flat = marked._collapse(ord("_"), text)
    assert "".join(map(chr, flat.points.numpy())) == "a_b _"
    assert flat.starts.numpy().tolist() == [0, 2, 3, 4, 6]


def test_white_space_divides_words():
    index, table = marked._white()
    points = np.array([ord(c) for c in "a \t\u00a0\u3000\u200b"])
    found = table[index[points // 256], points % 256]
    assert found.tolist() == [0, 1, 1, 1, 1, 0]
