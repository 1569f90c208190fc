"""Shifts of position scores: the original's, and by two methods."""

import numpy as np
import pytest
import tensorflow as tf

from modeling.attention.positions import shifts
from tests.modeling.golden.golden_util import matching


@pytest.mark.shared
@pytest.mark.parametrize("method", ["gather", "radix"])
def test_shift(units, method):
    pattern = r"rel_shift(_uni)?/q(\d+)_k(\d+)/x"
    for match, x in matching(units, pattern):
        q, k = int(match.group(2)), int(match.group(3))
        expected = units[match.group()[:-1] + "y"]
        x = tf.transpose(x, [3, 2, 0, 1])  # [N, B, T, R]
        y = shifts.shift_all(x, k)
        np.testing.assert_array_equal(tf.transpose(y, [2, 3, 1, 0]), expected)
        chosen = tf.constant([[2, 0, 1], [1, 1, 2]])
        rows = tf.stack(
            [tf.gather(x[:, b], chosen[b], axis=1) for b in range(2)], 1
        )
        z = shifts.shift_at(rows, chosen, q, k, method)
        wanted = tf.stack(
            [tf.gather(y[:, b], chosen[b], axis=1) for b in range(2)], 1
        )
        # "uni": what lies ahead of a query is never used.
        used = np.arange(k) <= chosen.numpy()[..., None] + k - q
        if match.group(1) is None:
            used[:] = True
        np.testing.assert_array_equal(
            z.numpy()[:, used], wanted.numpy()[:, used]
        )


@pytest.mark.parametrize("query_len,memory_len", [(9, 0), (20, 7), (70, 3)])
def test_radix_shift_equals_gather(query_len, memory_len):
    """Values and gradients, offsets of one, two and three digits."""
    rng = np.random.default_rng(0)
    key_len = query_len + memory_len
    x = tf.constant(rng.normal(size=(2, 3, 5, key_len + query_len)), tf.float32)
    where = tf.constant(rng.integers(0, query_len, (3, 5)), tf.int32)
    where = tf.concat([where[:, :-2], [[0, query_len - 1]] * 3], 1)
    upstream = tf.constant(rng.normal(size=(2, 3, 5, key_len)), tf.float32)
    results = []
    for method in ("gather", "radix"):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = shifts.shift_at(x, where, query_len, key_len, method)
        results.append((y, tape.gradient(y, x, upstream)))
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    "query_len,memory_len,ahead",
    [
        (16, 0, True),
        (48, 7, True),
        (64, 64, True),
        (20, 7, True),
        (32, 5, False),
    ],
)
def test_shift_of_all_rows_by_tiles(query_len, memory_len, ahead):
    """Values and gradients, where a key is not ahead of a table that ends."""
    rng = np.random.default_rng(0)
    key_len = query_len + memory_len
    count = key_len + (query_len if ahead else 1)
    x = tf.constant(rng.normal(size=(2, 3, query_len, count)), tf.float32)
    upstream = tf.constant(
        rng.normal(size=(2, 3, query_len, key_len)), tf.float32
    )
    seen = tf.ones([query_len, key_len])
    if not ahead:  # what the causal mask hides may differ
        seen = tf.linalg.band_part(seen, -1, memory_len)
    results = []
    for method in ("gather", "radix"):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = shifts.shift_all(x, key_len, method) * seen
        results.append((y, tape.gradient(y, x, upstream)))
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)
