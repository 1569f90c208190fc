"""Attention of one new token to the last M, kept in a ring of M slots.

Letters: B samples, M slots, N heads, H head size.

Token t lies in slot t mod M until token t + M takes its place; nothing moves.
A slot's distance from token t is ((t - slot - 1) mod M) + 1, so position
scores are made by distance, 0..M, and taken in the order of the slots.
"""

import dataclasses
from typing import ClassVar

import tensorflow as tf

from modeling.attention import relative
from modeling.attention.cached import written
from modeling.attention.relative_attention import RelativeAttention
from modeling.ops.context import LayerContext


@dataclasses.dataclass(frozen=True)
class Place:
    """Where the new token stands; the same in every layer."""

    slot: tf.Tensor  # int32 scalar, the slot that it will take
    distances: tf.Tensor  # int32 [M + 1], of the slots and of itself (0)
    # float32 [M + 1], added to scores: slots not yet filled are hidden, or
    # count as zero vectors
    mask: tf.Tensor

    @classmethod
    def of(cls, token: tf.Tensor, slots: int, hide: bool = True) -> "Place":
        """The place of token number `token` (int32 scalar) of a text.

        Slots that are not yet filled are hidden, or else seen as zeros.
        """
        back = tf.math.floormod(token - tf.range(slots) - 1, slots) + 1  # [M]
        distances = tf.pad(back, [[0, 1]])  # [M + 1]
        unfilled = tf.cast(hide & (distances > token), tf.float32)
        return cls(token % slots, distances, unfilled * -1e30)


@dataclasses.dataclass(frozen=True)
class RingKeys:
    """Keys and values of one layer for one new token."""

    method: ClassVar[str] = "gather"  # positions by table, see `relative.Keys`

    cache: tf.Tensor  # [2, N, B, M, H], keys and values of the slots
    new: tf.Tensor  # [2, N, B, 1, H], those of the token itself
    r: tf.Tensor  # [N, M + 1, H], projected positions of the distances 0..M
    place: Place
    biases: tuple[tf.Tensor, ...]  # (u, v), each [N, H]

    @classmethod
    def of(
        cls,
        attention: RelativeAttention,
        x: tf.Tensor,
        cache: tf.Tensor,
        r: tf.Tensor,
        place: Place,
        shared: tuple,
        context: LayerContext,
    ) -> "RingKeys":
        """With the keys and values of the token's content x [B, 1, D]."""
        kernels = [attention.kernels[name] for name in "kv"]
        new = tf.stack(context.matmul.heads([x], kernels))
        if attention.untie_r:
            shared = [getattr(attention, n) for n in attention.bias_names]
        return cls(cache, new, r, place, tuple(shared))

    def written(self) -> tf.Tensor:
        """The cache with the token in its slot."""
        return written(self.cache, self.new, self.place.slot)

    def attend(self, queries, stream, seed=None, rate=0.0):
        """Attention vectors [N, B, 1, H]; without gradient and dropout.

        The plain form; `line` has the slots in the order of the text:

          k, v = concat([line(cache), new], axis=3)  # [N, B, M + 1, H] each
          vector = relative.attend(queries, Keys(k, v, r by distance M..0))
        """
        content = tf.concat(
            [
                tf.matmul(queries.content, self.cache[0], transpose_b=True),
                tf.matmul(queries.content, self.new[0], transpose_b=True),
            ],
            -1,
        )  # [N, B, 1, M + 1]
        position = tf.matmul(
            queries.position[:, :, 0], self.r, transpose_b=True
        )  # [N, B, M + 1] by distance
        position = tf.gather(position, self.place.distances, axis=2)
        scores = tf.cast(content, tf.float32) + self.place.mask
        scores += tf.cast(position[:, :, tf.newaxis], tf.float32)
        p = relative.probabilities(scores, self.new.dtype)
        vector = tf.matmul(p[..., :-1], self.cache[1])
        return vector + p[..., -1:] * self.new[1]


def fill(memory: tf.Tensor, count: int, slots: int) -> tf.Tensor:
    """Puts the last tokens of a text of `count` into their slots.

    [2, N, B, M, H], zeros where a slot holds nothing, of `memory`
    [2, N, B, m, H], keys and values of its last m <= M tokens.
    """
    kept = memory.shape[3]
    memory = tf.pad(memory, [[0, 0]] * 3 + [[slots - kept, 0], [0, 0]])
    # The last token, number count - 1, is now in the last slot.
    return tf.roll(memory, count % slots, axis=3)
