"""Attention to near keys only, in blocks: time grows with T, not with T^2.

|i - j| <= half, both ends included. Rows are cut into blocks of `half`; a block
sees itself and its two neighbours, so it needs 3 half keys:

    rows      [ 0 1 | 2 3 | 4 5 | 6 7 ]       half = 2
    keys of block 1:  0 1   2 3   4 5         |i - j| <= 2 inside it

Blocks are rows of a batch for `modeling.attention.plain`. With T of at most
2 * `half` (or of unknown size) all keys are made and the far ones masked.

Letters: B batch, T length, C blocks of W rows, N heads, H head size.
"""

import dataclasses

import tensorflow as tf

from modeling.attention import masks, plain
from modeling.ops import fused as fusion
from modeling.ops.shapes import sizes


@dataclasses.dataclass(frozen=True)
class LocalMask:
    """Who sees whom, made once for all local layers."""

    half: int  # keys to each side
    # float32, added to scores: [B or 1, T, T] for the dense path, else
    # [B * C, W, 3 W]
    mask: tf.Tensor
    blocks: int  # C, or 0 for the dense path
    length: int | tf.Tensor  # T


@dataclasses.dataclass(frozen=True)
class LocalKeys:
    """Keys and values, of which a row sees the near ones."""

    k: tf.Tensor  # [N, B, T, H]
    v: tf.Tensor  # [N, B, T, H]
    mask: LocalMask  # of `make_mask`; it takes the place of a stream's

    def attend(self, queries, stream, seed=None, rate=0.0):
        """See `AttendedKeys`; queries [N, B, T, H].

        Rows that see no key get the mean of those at hand. The plain form:

          far = abs(i - j) > half  # [T, T]
          vector = plain.attend(q, k, v, bias(far | blocked))
        """
        del stream
        mask, how = self.mask.mask, (seed, rate)
        if not self.mask.blocks:
            return plain.attend(queries, self.k, self.v, mask, *how)
        n, batch, length, h = sizes(queries)
        width, blocks = self.mask.half, self.mask.blocks
        gap = blocks * width - length
        if gap:
            queries = tf.pad(queries, [[0, 0], [0, 0], [0, gap], [0, 0]])
        rows = tf.reshape(queries, [n, -1, width, h])  # [N, B*C, W, H]
        windows = Windows(length, width)
        vectors = plain.attend(rows, self.k, self.v, mask, *how, windows)
        vectors = tf.reshape(vectors, [n, batch, blocks * width, h])
        return vectors[:, :, :length] if gap else vectors


@dataclasses.dataclass(frozen=True)
class Windows:
    """Each block of W rows with both others: see `plain.Windows`."""

    length: int  # T
    width: int  # W

    def of(self, x: tf.Tensor) -> tf.Tensor:
        """[N, B, T, H] -> [N, B*C, 3W, H]; zeros beyond the ends."""
        return _with_neighbours(x, width=self.width)

    def total(self, x: tf.Tensor) -> tf.Tensor:
        """[N, B*C, 3W, H] -> [N, B, T, H], added in float32."""
        blocks = -(-self.length // self.width)
        n, _, _, h = sizes(x)
        wide = tf.cast(x, tf.float32)
        wide = tf.reshape(wide, [n, -1, blocks, 3, self.width, h])
        return _sum_of_neighbours(wide, length=self.length, dtype=x.dtype)


@fusion.compiled
def _with_neighbours(x, width):
    n, _, length, h = sizes(x)
    blocks = -(-length // width)
    gap = blocks * width - length
    x = tf.pad(x, [[0, 0], [0, 0], [width, width + gap], [0, 0]])
    x = tf.reshape(x, [n, -1, blocks + 2, width, h])
    x = tf.concat([x[:, :, i : i + blocks] for i in range(3)], 3)
    return tf.reshape(x, [n, -1, 3 * width, h])


@fusion.compiled
def _sum_of_neighbours(x, length, dtype):
    """[N, B, C, 3, W, H] -> [N, B, T, H].

    Shifted copies and a sum: the gradient of a slice would write every element
    by itself.
    """
    n, batch, blocks, _, width, h = sizes(x)
    none = tf.zeros_like(x[:, :, :1, 0])
    before = tf.concat([x[:, :, 1:, 0], none], 2)
    after = tf.concat([none, x[:, :, :-1, 2]], 2)
    total = tf.cast(before + x[:, :, :, 1] + after, dtype)
    return tf.reshape(total, [n, batch, blocks * width, h])[:, :, :length]


def make_mask(
    batch: int | tf.Tensor,
    length: int | tf.Tensor,
    half: int,
    input_mask: tf.Tensor | None = None,
    documents: tf.Tensor | None = None,
) -> LocalMask:
    """What local layers add to their scores.

    Args:
      half: keys to each side, >= 1.
      input_mask: [B, T], 1 = real token; None = all.
      documents: int [B, T], see `plain.blocked_keys`; None = one per row.
    """
    if not isinstance(length, int) or length <= 2 * half:
        position = tf.range(length)
        far = tf.abs(position[:, tf.newaxis] - position) > half  # [T, T]
        blocked = plain.blocked_keys(input_mask, documents)
        blocked = far[tf.newaxis] if blocked is None else blocked | far
        return LocalMask(half, masks.bias(blocked), 0, length)
    blocks = -(-length // half)
    gap = blocks * half - length
    # Distances inside a block and its neighbours are the same for all.
    rows = half + tf.range(half)[:, tf.newaxis]
    far = tf.abs(rows - tf.range(3 * half)) > half  # [W, 3W]
    real = tf.ones([batch, length], tf.int32)
    if input_mask is not None:
        real = tf.cast(tf.cast(input_mask, tf.bool), tf.int32)
    real = tf.pad(real, [[0, 0], [half, half + gap]])  # beyond the ends: none
    blocked = tf.equal(_windows(real, blocks, half), 0)  # [B, C, 3W]
    blocked = blocked[:, :, tf.newaxis] | far  # [B, C, W, 3W]
    if documents is not None:
        padded = tf.pad(documents, [[0, 0], [half, half + gap]])
        keys = _windows(padded, blocks, half)  # [B, C, 3W]
        rows = keys[:, :, half : 2 * half]  # [B, C, W]
        other = rows[..., tf.newaxis] != keys[:, :, tf.newaxis]
        blocked |= other
    blocked = tf.reshape(blocked, [-1, half, 3 * half])
    return LocalMask(half, masks.bias(blocked), blocks, length)


def _windows(x, blocks, width):
    """[B, (C + 2) W] -> [B, C, 3W]: each block with its neighbours."""
    x = tf.reshape(x, [-1, blocks + 2, width])
    return tf.concat([x[:, i : i + blocks] for i in range(3)], -1)
