"""Groups of heads in turn give what all heads give at once, bit for bit."""

import numpy as np
import pytest
import tensorflow as tf

from modeling.attention import chunked, plain
from modeling.attention.attend import Stream
from modeling.ops import fused

N, B, T, H = 4, 2, 6, 8


def tensors(dtype):
    """q, k and v, [N, B, T, H] each."""
    shape = [N, B, T, H]
    return [
        tf.cast(tf.random.stateless_normal(shape, [1, i]), dtype)
        for i in range(3)
    ]


def split_operations(function):
    graph = function.get_concrete_function().graph
    return [op for op in graph.get_operations() if op.type == "Split"]


@pytest.mark.parametrize("groups", [2, 4])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_groups_of_heads_change_no_bit(monkeypatch, dtype, groups):
    q, k, v = tensors(dtype)
    mask = tf.where(tf.range(T) < T - 1, 0.0, -1e30)[tf.newaxis, tf.newaxis]
    monkeypatch.setattr(chunked, "head_groups", lambda *_: groups)
    monkeypatch.setattr(fused, "MIN_ELEMENTS", 1)

    def attended(training):
        keys = plain.PlainKeys(k, v, training)
        return tf.function(
            lambda: keys.attend(q, Stream(mask)), autograph=False
        )

    in_turn, at_once = attended(False), attended(True)
    np.testing.assert_array_equal(in_turn(), at_once())
    assert len(split_operations(in_turn)) == 3
    assert not split_operations(at_once)


def test_without_dropout_the_probabilities_are_not_copied(monkeypatch):
    monkeypatch.setattr(fused, "MIN_ELEMENTS", 1)
    q, k, v = tensors("float32")

    def kernels(rate):
        run = tf.function(
            lambda: plain.attend(q, k, v, None, tf.constant([3, 4]), rate),
            autograph=False,
        )
        graph = run.get_concrete_function().graph
        return sum("Call" in op.type for op in graph.get_operations())

    assert kernels(0.3) == kernels(0.0) + 1
