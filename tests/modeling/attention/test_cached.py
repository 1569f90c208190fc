"""A text that grows: the same as attending to the whole text at once."""

import numpy as np
import pytest
import tensorflow as tf

from modeling.attention import masks
from modeling.attention.attend import Stream
from modeling.attention.positions import shifts, sinusoids
from modeling.attention.relative_attention import RelativeAttention
from modeling.ops.context import LayerContext
from modeling.ops.matmul import PreparedMatmul

B, P, G, D, N, H = 3, 4, 6, 10, 2, 3
C = P + G


@pytest.mark.parametrize("slot", [0, 2, G - 1])
def test_two_rows_of_a_text_equal_those_of_the_whole(slot):
    """The content row at P + slot, and a query row one place further."""
    rng = np.random.default_rng(slot)
    layer = RelativeAttention(D, N, H)
    layer.build([None, None, D])
    for variable in layer.trainable_variables:
        variable.assign(rng.normal(size=variable.shape) * 0.5)
    text = rng.normal(size=[B, P + slot + 1, D]).astype(np.float32)
    text[:, :P] = text[:1, :P]  # one prompt
    query = tf.constant(rng.normal(size=[B, 1, D]), tf.float32)

    length = P + slot + 2  # with the query's own place, which nobody sees
    whole = tf.concat([text, query], 1)
    hidden = masks.causal_mask(length, 0) | (
        tf.range(length) == length - 1
    )  # [T, T]
    table = sinusoids.sinusoid_table(length, length, D, "uni")
    keys = layer.keys([whole], length, (table,))
    wanted = layer(whole, keys, Stream(masks.bias(hidden)[tf.newaxis]))

    prompt = layer.keys(
        [text[:1, :P]], 1, (sinusoids.sinusoid_table(1, C, D, "uni"),)
    )
    context = LayerContext(
        matmul=PreparedMatmul(
            [layer.kernels[name] for name in "qo"],
            [[layer.kernels[name] for name in "kv"]],
            tf.float32,
        )
    )
    cache = tf.zeros([2, N, B, G, H])
    for i in range(slot + 1):
        x = tf.constant(text[:, P + i : P + i + 1])
        grown = layer.growing_keys(prompt, x, cache, tf.constant(i), context)
        cache = grown.cache
    ahead = tf.range(C) > P + slot
    found = layer(
        tf.concat([x, query], 1),
        grown,
        Stream(masks.bias(ahead)[tf.newaxis, tf.newaxis]),
        context,
    )
    np.testing.assert_allclose(found, wanted[:, -2:], atol=1e-5)


def test_rows_that_stand_anywhere_are_shifted_like_all():
    x = tf.random.stateless_normal([2, 3, 5, 12], [1, 2])
    every = shifts.shift_all(x, 7)
    np.testing.assert_array_equal(shifts.shift_from(x, 5, 7), every)
    some = shifts.shift_from(x[:, :, 3:], tf.constant(2), 7)
    np.testing.assert_array_equal(some, every[:, :, 3:])
