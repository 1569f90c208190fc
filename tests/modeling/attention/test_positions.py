"""Tables of positions and shifts: the original's, and by two methods."""

import numpy as np
import pytest
import tensorflow as tf

from modeling.attention import positions
from tests.modeling.golden import golden_util
from tests.modeling.golden.golden_util import matching


@pytest.mark.shared
def test_position_table(units):
    pattern = r"relpos/q(\d+)_k(\d+)_(bi|uni)_bd([01])_cl(-?\d+)_b(None|4)"
    for match, expected in matching(units, pattern):
        q, k, kind, bi_data, clamp, _ = match.groups()
        bi_data = bi_data == "1"
        table = positions.sinusoid_table(
            int(q), int(k), 6, kind, int(clamp), bi_data
        )
        # The original repeats each direction for its half of the batch.
        repeat = expected.shape[1] // table.shape[0]
        table = tf.repeat(tf.transpose(table, [1, 0, 2]), repeat, axis=1)
        golden_util.assert_close(table, expected, match.group())


@pytest.mark.shared
@pytest.mark.parametrize("method", ["gather", "radix"])
def test_shift(units, method):
    pattern = r"rel_shift(_uni)?/q(\d+)_k(\d+)/x"
    for match, x in matching(units, pattern):
        q, k = int(match.group(2)), int(match.group(3))
        expected = units[match.group()[:-1] + "y"]
        x = tf.transpose(x, [3, 2, 0, 1])  # [N, B, T, R]
        y = positions.shift_all(x, k)
        np.testing.assert_array_equal(tf.transpose(y, [2, 3, 1, 0]), expected)
        chosen = tf.constant([[2, 0, 1], [1, 1, 2]])
        rows = tf.stack(
            [tf.gather(x[:, b], chosen[b], axis=1) for b in range(2)], 1
        )
        z = positions.shift_at(rows, chosen, q, k, method)
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


def test_distances_are_distinct_in_float32():
    table = positions.sinusoid_table(512, 896, 64).numpy()[0]
    assert table.dtype == np.float32
    assert len(np.unique(table, axis=0)) == 1408


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
            y = positions.shift_at(x, where, query_len, key_len, method)
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
            y = positions.shift_all(x, key_len, method) * seen
        results.append((y, tape.gradient(y, x, upstream)))
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("chosen", [False, True])
def test_factors_give_the_scores_of_the_table(directions, chosen):
    """By key, for all rows and for chosen ones; both signs of distances."""
    n, b, t, m, d = 3, 4, 7, 5, 10
    rng, key_len = np.random.default_rng(5), m + t
    places = np.arange(t)[np.newaxis]
    if chosen:
        places = rng.integers(0, t, (b, 3))
    q = rng.normal(size=(n, b, places.shape[1], d)).astype(np.float32)
    factors = positions.key_factors(key_len, d, directions == 2).numpy()
    assert factors.shape == (directions, key_len, d)
    assert factors.dtype == np.float32
    halves = (tf.constant(half) for half in np.split(q, 2, -1))
    rows = positions.turned(*halves, tf.constant(m + places), directions)
    found = np.einsum("nbqd,kd->nbqk", rows, factors[0])
    np.testing.assert_array_equal(factors[0], factors[-1])
    distances = (m + places)[..., np.newaxis] - np.arange(key_len)  # [., Q, K]
    sign = np.repeat([1, -1][:directions], b // directions)
    distances = sign[:, np.newaxis, np.newaxis] * distances  # [B, Q, K]
    angles = distances[..., np.newaxis] / 10000 ** (np.arange(0, d, 2) / d)
    table = np.concatenate([np.sin(angles), np.cos(angles)], -1)
    expected = np.einsum("nbqd,bqkd->nbqk", q, table)
    np.testing.assert_allclose(found, expected, atol=2e-5)


def test_factors_are_hardly_less_exact_in_bfloat16_than_the_table():
    """The error of position scores whose sums are float32, as on TPU."""
    rng = np.random.default_rng(0)
    d, h, t, m = 1024, 64, 24, 16
    q = tf.constant(rng.normal(size=(t, h)) / h**0.5, tf.float32)
    kernel = tf.constant(rng.normal(size=(d, h)) * 0.05, tf.float32)
    table = positions.sinusoid_table(t, m + t, d)[0]
    factors = positions.key_factors(m + t, d)[0]

    def scores(dtype):
        """(by the table, by factors), each [T, K]."""

        def product(a, b):  # of rounded numbers, summed in float32
            a, b = (tf.cast(tf.cast(x, dtype), tf.float32) for x in (a, b))
            return tf.cast(tf.matmul(a, b, transpose_b=True), dtype)

        r = product(table, tf.transpose(kernel))  # [R, H]
        shifted = positions.shift_all(product(q, r), m + t)
        halves = tf.split(product(q, kernel)[tf.newaxis, tf.newaxis], 2, -1)
        rows = positions.turned(*halves, tf.range(m, m + t)[tf.newaxis])
        pair = shifted, product(rows[0, 0], factors)
        return [tf.cast(x, tf.float32).numpy() for x in pair]

    exact, rounded = scores(tf.float32), scores(tf.bfloat16)
    np.testing.assert_allclose(exact[1], exact[0], atol=2e-5)
    errors = [np.std(b - a) for a, b in zip(exact, rounded, strict=True)]
    assert 0 < errors[1] < 1.4 * errors[0]
