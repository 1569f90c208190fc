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
def test_groups_of_heads_change_rounding_alone(monkeypatch, dtype, groups):
    """Products of fewer heads may be summed in another order (AVX2)."""
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
    close = 1e-6 if dtype == "float32" else 2.0**-6
    np.testing.assert_allclose(
        *(tf.cast(x, tf.float32) for x in (in_turn(), at_once())),
        rtol=close,
        atol=close,
    )
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
