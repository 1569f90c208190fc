"""Position scores without a shift: the factors of sinusoids.

Letters: B batch, T queries, Q query rows, M memory, K = M + T keys, R relative
positions, S directions, N heads, D model, W waves.
The sines of a difference are products (Funnel-Transformer, appendix A.2, has
the form for TPU):

  a sin(i - j) + b cos(i - j)
    = (a sin i + b cos i) cos j + (b sin i - a cos i) sin j

`turned` makes the two brackets of a query row, `key_factors` what they are
multiplied with; the distances have to be unclipped.

The frequencies of the sinusoid table lie between 0 and 1. Over R distances
such functions have little more than R / pi dimensions (Slepian and Pollak
1961), often fewer than D: W evenly spaced waves make the table, with a fixed
matrix that the kernel of the positions is multiplied with first.
"""

import dataclasses
import functools

import numpy as np
import tensorflow as tf

from modeling.attention.positions import sinusoids

# Lanes of a TPU's register.
_LANES = 128
# The largest error of a sine: a quarter of what float32 angles are wrong by at
# a distance of a thousand.
_LARGEST_ERROR = 1e-5
# Keeps the mixing small where the waves are nearly dependent.
_RIDGE = 1e-14


@dataclasses.dataclass(frozen=True)
class Waves:
    """Waves whose sums are the columns of the sinusoid table.

    Attributes:
      mixing: float32 [W, D]: table = waves mixing, with W/2 sines of the
        distance, then W/2 cosines.
      length: of the Fourier series, in tokens: its frequencies are
        pi (2 m + 1) / length. None: those of the table, W = D.
    """

    mixing: np.ndarray
    length: int | None

    def angles(self, places: tf.Tensor) -> tf.Tensor:
        """int [...] -> float32 [..., W/2], whole turns left out."""
        if self.length is None:
            return sinusoids.angles_of(places, self.mixing.shape[1])
        odd = 2 * tf.range(self.mixing.shape[0] // 2) + 1
        places = tf.cast(places, tf.int32)[..., tf.newaxis]
        turns = places * odd % (2 * self.length)
        return tf.cast(turns, tf.float32) * (np.pi / self.length)


def fewest_waves(
    query_len: int | tf.Tensor,
    key_len: int | tf.Tensor,
    d_model: int,
    attn_type: str = "bi",
) -> Waves:
    """The fewest waves, by whole registers, that make the sinusoid table.

    A Fourier series of a bit more than R tokens; its coefficients are a least
    squares fit. Known sizes only, else the table's own waves.
    """
    if isinstance(query_len, int) and isinstance(key_len, int):
        return _search(query_len, key_len, d_model, attn_type)
    return Waves(np.eye(d_model, dtype=np.float32), None)


@functools.cache
def _search(query_len, key_len, d_model, attn_type):
    count = sinusoids.num_positions(query_len, key_len, attn_type)
    distances = key_len - np.arange(count, dtype=np.float64)  # [R]
    table = _waves(distances, 10000.0 ** -(np.arange(0, d_model, 2) / d_model))
    for number in range(_LANES, d_model, _LANES):
        # Both are above 1 by the same factor: the series' length over R, and
        # its largest frequency.
        length = round((count * number * np.pi) ** 0.5)
        if length <= count:
            continue
        odd = 2 * np.arange(number // 2) + 1
        waves = _waves(distances, np.pi * odd / length)  # [R, W]
        products = waves.T @ waves + _RIDGE * count * np.eye(number)
        mixing = np.linalg.solve(products, waves.T @ table)  # [W, D]
        if np.abs(waves @ mixing - table).max() <= _LARGEST_ERROR:
            return Waves(mixing.astype(np.float32), length)
    return Waves(np.eye(d_model, dtype=np.float32), None)


def _waves(distances, frequencies):
    """Sines, then cosines: float64 [R, W]."""
    angles = distances[:, np.newaxis] * frequencies
    return np.concatenate([np.sin(angles), np.cos(angles)], -1)


def by_direction(mixing: tf.Tensor, directions: int) -> tf.Tensor:
    """The mixing [W, D] of each direction: [S, W, D].

    Of two the second has the sign of its distances flipped, which flips the
    table's sines.
    """
    half = mixing.shape[1] // 2
    signs = [[1.0] * 2 * half, [-1.0] * half + [1.0] * half]  # [2, D]
    return mixing * tf.constant(signs[:directions])[:, tf.newaxis]


def key_factors(key_len: int | tf.Tensor, waves: Waves) -> tf.Tensor:
    """What `turned` rows are multiplied with, for the keys 0..K-1.

    float32 [K, W] under any policy: W/2 cosines, then W/2 sines.
    """
    angles = waves.angles(tf.range(key_len))  # [K, W/2]
    return tf.concat([tf.cos(angles), tf.sin(angles)], -1)


def turned(
    a: tf.Tensor, b: tf.Tensor, places: tf.Tensor, waves: Waves
) -> tf.Tensor:
    """Query rows [N, B, Q, W] whose products with `key_factors` are scores.

    The numbers are those of the waves of the distances times (a, b), by key.

    Args:
      a: [N, B, Q, W/2], what the sines of the distances are weighted with.
      b: the same of the cosines.
      places: int [B or 1, Q], i of each row, counted as the keys are (M + its
        place in the segment).
      waves: those that a and b belong to.
    """
    angles = waves.angles(places)  # [B or 1, Q, W/2]
    sine, cosine = (tf.cast(f(angles), a.dtype) for f in (tf.sin, tf.cos))
    return tf.concat([a * sine + b * cosine, b * sine - a * cosine], -1)
