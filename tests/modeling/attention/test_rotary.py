"""Rotary positions by hand, and their gradient."""

import numpy as np
import pytest
import tensorflow as tf

from modeling.attention import rotary
from modeling.ops import fused as fusion

B, T, N, H = 2, 5, 3, 4


def _half_split(x, positions, theta):
    """The definition, element by element; x [..., T, H]."""
    half = x.shape[-1] // 2
    found = np.empty_like(x)
    for row, place in enumerate(positions):
        for m in range(half):
            angle = place * theta ** (-m / half)
            first, second = x[..., row, m], x[..., row, m + half]
            cos, sin = np.cos(angle), np.sin(angle)
            found[..., row, m] = first * cos - second * sin
            found[..., row, m + half] = second * cos + first * sin
    return found


def _product(dtype="float32"):
    rng = np.random.default_rng(0)
    return tf.constant(rng.normal(size=[B, T, 3, N, H]), dtype)


def test_queries_and_keys_turn_and_values_do_not():
    positions = [0, 1, 2, 7, 3]
    table = rotary.table(tf.constant([positions]), H, 100.0)
    product = _product()
    q, k, v = rotary.heads(product, *table)
    wanted = product.numpy().transpose(2, 3, 0, 1, 4)
    for found, x in ((q, wanted[0]), (k, wanted[1])):
        np.testing.assert_allclose(
            found, _half_split(x, positions, 100.0), rtol=1e-5, atol=1e-6
        )
    np.testing.assert_array_equal(v, wanted[2])


def test_rows_of_a_batch_have_their_own_positions():
    positions = np.array([[0, 1, 2, 3, 4], [5, 0, 1, 0, 9]])
    product = _product()
    found = rotary.heads(product, *rotary.table(tf.constant(positions), H, 9.0))
    for row, places in enumerate(positions):
        x = product.numpy()[row].transpose(1, 2, 0, 3)
        np.testing.assert_allclose(
            found[0][:, row], _half_split(x[0], places, 9.0), atol=1e-5
        )


@pytest.mark.long
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_written_gradient_is_that_of_the_plain_form(
    monkeypatch, dtype, compiled
):
    if compiled:
        monkeypatch.setattr(fusion, "MIN_ELEMENTS", 1)
    table = rotary.table(tf.range(T)[tf.newaxis], H, 100.0)
    product = _product(dtype)
    upstream = [tf.cast(_product()[:, :, i], dtype) * (i + 1) for i in range(3)]
    upstream = [tf.transpose(x, [2, 0, 1, 3]) for x in upstream]

    def plain(product):
        x = tf.transpose(tf.cast(product, tf.float32), [2, 3, 0, 1, 4])
        first, second = tf.split(x, 2, -1)
        turned = x * table[0] + tf.concat([-second, first], -1) * table[1]
        return tf.unstack(tf.cast(tf.concat([turned[:2], x[2:]], 0), dtype))

    def values(function):
        @tf.function(autograph=False)
        def run(product):
            with tf.GradientTape() as tape:
                tape.watch(product)
                out = function(product)
            return *out, tape.gradient(out, product, upstream)

        return run(product)

    found = values(lambda x: rotary.heads(x, *table))
    assert {x.dtype for x in found} == {tf.as_dtype(dtype)}
    for x, wanted in zip(found, values(plain), strict=True):
        x, wanted = tf.cast(x, tf.float32), tf.cast(wanted, tf.float32)
        np.testing.assert_allclose(x, wanted, rtol=1e-6, atol=1e-6)
