"""Position scores by factors: those of the table."""

import numpy as np
import pytest
import tensorflow as tf

from modeling.attention.positions import factors, shifts, sinusoids


@pytest.mark.parametrize(
    "t,m,d,attn_type,count",
    [
        (512, 384, 1024, "bi", 512),
        (512, 384, 768, "bi", 512),
        (512, 0, 768, "bi", 384),
        (768, 768, 1024, "uni", 640),
        (384, 384, 1024, "uni", 384),
        (12, 9, 192, "bi", 128),
    ],
)
def test_fewer_waves_make_the_table(t, m, d, attn_type, count):
    """Of XLNet and Transformer-XL, with mixing weights of ordinary size."""
    waves = factors.fewest_waves(t, m + t, d, attn_type)
    assert waves.mixing.shape == (count, d)
    assert np.abs(waves.mixing).max() < 2
    last = t if attn_type == "bi" else 1
    distances = np.arange(m + t, -last, -1)
    phases = distances[:, np.newaxis] * (2 * np.arange(count // 2) + 1)
    angles = phases * np.pi / waves.length
    found = np.concatenate([np.sin(angles), np.cos(angles)], -1) @ waves.mixing
    angles = distances[:, np.newaxis] / 10000 ** (np.arange(0, d, 2) / d)
    table = np.concatenate([np.sin(angles), np.cos(angles)], -1)
    np.testing.assert_allclose(found, table, atol=2e-5)
    in_turns = waves.angles(tf.constant(distances[0]))
    np.testing.assert_allclose(
        np.sin(in_turns), np.sin(phases[0] * np.pi / waves.length), atol=1e-5
    )


@pytest.mark.parametrize(
    "t,d,known", [(128, 64, True), (400, 128, True), (12, 192, False)]
)
def test_few_columns_are_their_own_waves(t, d, known):
    """Also where the sizes are not known."""
    waves = factors.fewest_waves(t if known else tf.constant(t), t, d)
    np.testing.assert_array_equal(waves.mixing, np.eye(d))
    own = 10000.0 ** -(np.arange(0, d, 2) / d)
    np.testing.assert_allclose(waves.angles(tf.constant(3)), 3 * own, rtol=1e-5)


@pytest.mark.parametrize("d", [10, 144])
@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("chosen", [False, True])
def test_factors_give_the_scores_of_the_table(directions, chosen, d):
    """By key, for all rows and for chosen ones; both signs of distances."""
    n, b, t, m = 3, 4, 7, 5
    rng, key_len = np.random.default_rng(5), m + t
    places = np.arange(t)[np.newaxis]
    if chosen:
        places = rng.integers(0, t, (b, 3))
    q = rng.normal(size=(n, b, places.shape[1], d)).astype(np.float32)
    waves = factors.fewest_waves(t, key_len, d)
    by_key = factors.key_factors(key_len, waves)
    assert by_key.shape == (key_len, min(d, 128))
    assert by_key.dtype == tf.float32
    mixing = factors.by_direction(waves.mixing, directions).numpy()
    parts = zip(np.split(q, directions, 1), mixing, strict=True)
    mixed = np.concatenate([part @ w.T for part, w in parts], 1)
    halves = tf.split(tf.constant(mixed), 2, -1)
    rows = factors.turned(*halves, tf.constant(m + places), waves)
    found = np.einsum("nbqd,kd->nbqk", rows, by_key)
    distances = (m + places)[..., np.newaxis] - np.arange(key_len)  # [., Q, K]
    sign = np.repeat([1, -1][:directions], b // directions)
    distances = sign[:, np.newaxis, np.newaxis] * distances  # [B, Q, K]
    angles = distances[..., np.newaxis] / 10000 ** (np.arange(0, d, 2) / d)
    table = np.concatenate([np.sin(angles), np.cos(angles)], -1)
    expected = np.einsum("nbqd,bqkd->nbqk", q, table)
    np.testing.assert_allclose(found, expected, atol=1e-4 if d > 10 else 2e-5)


def test_factors_are_hardly_less_exact_in_bfloat16_than_the_table():
    """The error of position scores whose sums are float32, as on TPU."""
    rng = np.random.default_rng(0)
    d, h, t, m = 1024, 64, 24, 16
    q = tf.constant(rng.normal(size=(t, h)) / h**0.5, tf.float32)
    kernel = tf.constant(rng.normal(size=(d, h)) * 0.05, tf.float32)
    table = sinusoids.sinusoid_table(t, m + t, d)[0]
    waves = factors.fewest_waves(t, m + t, d)
    by_key = factors.key_factors(m + t, waves)

    def scores(dtype):
        """(by the table, by factors), each [T, K]."""

        def product(a, b):  # of rounded numbers, summed in float32
            a, b = (tf.cast(tf.cast(x, dtype), tf.float32) for x in (a, b))
            return tf.cast(tf.matmul(a, b, transpose_b=True), dtype)

        r = product(table, tf.transpose(kernel))  # [R, H]
        shifted = shifts.shift_all(product(q, r), m + t)
        mixed = product(waves.mixing, tf.transpose(kernel))  # [W, H]
        halves = tf.split(product(q, mixed)[tf.newaxis, tf.newaxis], 2, -1)
        rows = factors.turned(*halves, tf.range(m, m + t)[tf.newaxis], waves)
        pair = shifted, product(rows[0, 0], by_key)
        return [tf.cast(x, tf.float32).numpy() for x in pair]

    exact, rounded = scores(tf.float32), scores(tf.bfloat16)
    np.testing.assert_allclose(exact[1], exact[0], atol=2e-5)
    errors = [np.std(b - a) for a, b in zip(exact, rounded, strict=True)]
    assert 0 < errors[1] < 1.4 * errors[0]
