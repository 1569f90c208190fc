"""Dropout as a pure function of its seed.

A seed is int32 [2]. The caller folds step and replica into it; the backbone
folds the layer, and each site inside a layer has its number here. Equal seeds
give equal masks on every device and after every restart.
"""

import functools
from typing import NamedTuple

import tensorflow as tf

from modeling.ops import fused as fusion


class Sites(NamedTuple):
    """Numbers of the sites that one stream passes in a layer."""

    probabilities: int
    output: int
    inner: int
    feed_forward: int


CONTENT = Sites(0, 1, 2, 3)
QUERY = Sites(4, 5, 6, 7)
# Sites outside the layers.
EMBEDDING = 0
QUERY_EMBEDDING = 1
POSITIONS = 2
FINAL = 3
QUERY_FINAL = 4
SUMMARY = 5
SUMMARY_PROBABILITIES = 6
HEAD = 7
WORDS = 8
# More than there are sites. TensorFlow's fold of a seed and a number is
# (hash of the seed, number), and a site is added to the second half.
_SITES = 16
_STRIDE = 0x9E3779B9  # odd, so that multiples are far apart


def fold(seed: tf.Tensor | None, number: int) -> tf.Tensor | None:
    """An independent seed for part `number` of the model; None stays None."""
    if seed is None:
        return None
    return tf.random.experimental.stateless_fold_in(seed, number * _SITES)


def dropout(
    x: tf.Tensor,
    rate: float,
    seed: tf.Tensor | None,
    site: int,
    texts: int | None = None,
) -> tf.Tensor:
    """Zeroes a share `rate` of `x` and scales the rest by 1 / (1 - rate).

    `x` itself without a seed or rate.

    Args:
      rate: probability in [0, 1).
      seed: int32 [2], or None for no dropout.
      site: number of the place, added to the second half of the seed; the
        seeds of layers are `_SITES` apart, so sites never meet.
    """
    if seed is None or rate == 0.0:
        return x
    # Who drops is training, with a handful of shapes.
    more = {} if texts is None else {"texts": texts}
    seed = site_seed(seed, site)
    return _apply(x, seed, rate=rate, **more)


def words(
    rows: tf.Tensor, ids: tf.Tensor, rate: float, seed: tf.Tensor | None
) -> tf.Tensor:
    """Drops whole words: every occurrence of an id, or none of them.

    That is dropout of rows [..., E] of the table (Gal and Ghahramani 2016,
    section 4) without a mask of the table's size; `rate` is the probability
    that one of the ids [...] is dropped.
    """
    if seed is None or rate == 0.0:
        return rows
    first, second = _keys(site_seed(seed, WORDS))
    bits = first + tf.cast(ids, tf.uint32) * _constant(_STRIDE)
    bits = _hash(tf.bitwise.bitwise_xor(_hash(bits), second))
    keep = (bits >= _threshold(rate))[..., tf.newaxis]  # [..., 1]
    return tf.where(keep, _scaled(rows, rate), 0)


def site_seed(seed: tf.Tensor | None, site: int) -> tf.Tensor | None:
    """The seed of one site, for `masked`; None stays None."""
    if seed is None:
        return None
    return seed + tf.constant([0, site], seed.dtype)


def masked(
    x: tf.Tensor,
    seed: tf.Tensor | None,
    rate: float,
    texts: int | None = None,
) -> tf.Tensor:
    """`dropout` in plain operations, to be part of a fused function.

    Every element's number is a hash of (seed, index), 32 bits, so `rate` is
    exact to 2^-32, no random tensor is kept, and the backward pass recomputes
    the same mask.

    Args:
      seed: int32 [2] of the site, or None.
      texts: variational dropout (Gal and Ghahramani 2016): the rows of `x`
        are those of so many texts, one text after the other, and all rows of
        a text have one mask; None = every row has its own.
    """
    if seed is None or rate == 0.0:
        return x
    if texts is not None:
        rows = tf.reshape(x, [texts, -1, x.shape[-1]])
        keep = _bits(rows[:, :1], seed) >= _threshold(rate)  # [texts, 1, D]
        keep = tf.broadcast_to(keep, tf.shape(rows))
        keep = tf.reshape(keep, tf.shape(x))
    else:
        keep = _bits(x, seed) >= _threshold(rate)
    return tf.where(keep, _scaled(x, rate), 0)


_apply = fusion.fused(masked)


def _scaled(x: tf.Tensor, rate: float) -> tf.Tensor:
    """x / (1 - rate), rounded once: 1 / 0.9 itself is 1.109 in bfloat16."""
    return tf.cast(tf.cast(x, tf.float32) * (1.0 / (1.0 - rate)), x.dtype)


def _bits(x: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """uint32 of the shape of `x`, uniform."""
    bits = _bits_of(tf.shape(x), tf.cast(seed, tf.int32))
    bits.set_shape(x.shape)
    return bits


# One trace per rank: a site adds a call to the graph of a step. The operations
# of the hashes would be a third of the graph of a small model.
@functools.partial(tf.function, autograph=False)
def _bits_of(shape: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """uint32 of a shape (int32 [rank]) for a seed, int32 [2]."""
    first, second = _keys(seed)
    return _hash(tf.bitwise.bitwise_xor(_hash(_walk(shape, first)), second))


def _keys(seed):
    """Two uint32 scalars; near seeds give far keys."""
    first, second = tf.unstack(tf.bitcast(tf.cast(seed, tf.int32), tf.uint32))
    first = _hash(first + _constant(_STRIDE))
    second = _hash(second + first)
    return _hash(first + second), second


def _threshold(rate: float) -> tf.Tensor:
    """Bits below it are dropped."""
    return tf.constant(round(rate * 2.0**32), tf.uint32)


def _walk(shape: tf.Tensor, start: tf.Tensor) -> tf.Tensor:
    """start + _STRIDE * i for element i of the shape, uint32.

    A sum of one small range per axis that begins with the key: a long range
    would be folded into a constant of the whole shape.
    """
    stride, terms = _constant(_STRIDE), []
    for size in reversed(tf.unstack(shape)):
        steps = tf.cast(tf.range(size), tf.uint32) * stride
        terms.append(tf.reshape(steps, [-1] + [1] * len(terms)))
        stride *= tf.cast(size, tf.uint32)
    for term in reversed(terms):
        start += term
    return start


def _hash(x):
    """A bijection of 32 bits in which every bit moves every other."""
    x = _mix(x, 16) * _constant(0x21F0AAAD)
    x = _mix(x, 15) * _constant(0x735A2D97)
    return _mix(x, 15)


def _mix(x, bits):
    return tf.bitwise.bitwise_xor(x, tf.bitwise.right_shift(x, _constant(bits)))


def _constant(value: int) -> tf.Tensor:
    return tf.constant(value, tf.uint32)


def check_seed(training: bool, seed: tf.Tensor | None, rate: float) -> None:
    """Training with dropout and without a seed would silently drop nothing.

    Raises ValueError: `training` with a positive `rate` and no `seed`.
    """
    if training and rate > 0 and seed is None:
        raise ValueError(
            "`training=True` with a positive dropout rate needs `seed` "
            "(int32 [2]); give one or set the rates of the config to 0"
        )
