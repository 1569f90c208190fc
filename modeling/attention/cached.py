"""Attention of a few rows to a text that grows.

Letters: B samples, Q rows (consecutive places of the text), P prompt length,
G places after it, C = P + G, N heads, H head size.
"""

import dataclasses
from typing import ClassVar

import numpy as np
import tensorflow as tf

from modeling.attention import relative
from modeling.attention.positions import shifts
from modeling.attention.relative import Keys


def written(cache: tf.Tensor, new: tf.Tensor, slot: tf.Tensor) -> tf.Tensor:
    """[2, N, B, G, H] with [2, N, B, 1, H] at `slot`, int scalar."""
    index = np.indices(cache.shape[:3]).reshape(3, -1).T  # [2*N*B, 3]
    where = tf.fill([len(index), 1], slot)
    return tf.tensor_scatter_nd_update(
        cache,
        tf.concat([tf.constant(index, tf.int32), where], 1),
        tf.reshape(new, [len(index), -1]),
    )


@dataclasses.dataclass(frozen=True)
class CachedKeys:
    """A prompt that all samples share, and a cache of their own."""

    method: ClassVar[str] = "gather"  # positions by table, see `relative.Keys`

    # keys and values [N, 1, P, H]; its table r [N, 1, C + 1, H] holds the
    # distances C..0
    prompt: Keys
    cache: tf.Tensor  # [2, N, B, G, H], keys and values of the places after it
    slot: tf.Tensor  # int scalar; the first of the rows stands at P + `slot`

    @property
    def biases(self) -> tuple[tf.Tensor, ...]:
        """(u, v, s), each [N, H]."""
        return self.prompt.biases

    def write(self, new: tf.Tensor) -> "CachedKeys":
        """With keys and values `new` [2, N, B, 1, H] at `slot`."""
        cache = written(self.cache, new, self.slot)
        return dataclasses.replace(self, cache=cache)

    def attend(self, queries, stream, seed=None, rate=0.0):
        """`relative.attend` without gradient and dropout; [N, B, Q, H].

        The plain form:

          k = concat([tile(prompt.k, B), cache[0]], axis=2)  # [N, B, C, H]
          v = concat([tile(prompt.v, B), cache[1]], axis=2)
          vector = relative.attend(queries, Keys(k, v, prompt.r), stream)
        """
        k, v = self.cache[0], self.cache[1]  # [N, B, G, H]
        count, length = k.shape[2], self.prompt.key_len
        content = tf.concat(
            [
                self._to_prompt(queries.content, self.prompt.k, True),
                tf.matmul(queries.content, k, transpose_b=True),
            ],
            -1,
        )  # [N, B, Q, C]
        position = relative.position_scores(queries.position, self.prompt.r)
        # Keys after the rows get zeros, which the mask hides.
        position = tf.pad(position, [[0, 0]] * 3 + [[0, count]])
        scores = relative.combine(
            content,
            shifts.shift_from(position, count - self.slot, length + count),
            queries.segment,
            stream.segments,
            stream.mask,
            key_len=None,
        )  # [N, B, Q, C]
        p = relative.probabilities(scores, v.dtype)
        vector = self._to_prompt(p[..., :length], self.prompt.v, False)
        return vector + tf.matmul(p[..., length:], v)

    def _to_prompt(self, x, y, transpose):
        """x [N, B, Q, .] and y [N, 1, P, H]: all samples' rows at once."""
        n, batch, rows, width = x.shape
        x = tf.reshape(x, [n, batch * rows, width])
        out = tf.matmul(x, y[:, 0], transpose_b=transpose)  # [N, B*Q, P or H]
        return tf.reshape(out, [n, batch, rows, out.shape[2]])
