"""Multi-head attention without positions in the scores (BERT, ModernBERT).

  softmax(q k / sqrt(H) + mask) v

As in `modeling.attention.relative`: the backward pass is written out and keeps
the probabilities only.

Letters: B batch, T length, Q query rows, K keys, N heads, H head size.
"""

import dataclasses
from typing import Protocol

import tensorflow as tf

from modeling.attention import chunked, masks
from modeling.attention.relative import (
    drop_probabilities,
    probabilities,
    value_gradients,
)
from modeling.ops import fused as fusion
from modeling.ops.shapes import sizes, static_only


class Windows(Protocol):
    """Rows of a batch that are cut out of longer rows (`attention.local`)."""

    def of(self, x: tf.Tensor) -> tf.Tensor:
        """What is cut out of x."""

    def total(self, x: tf.Tensor) -> tf.Tensor:
        """The gradient of `of`: sums over the places that an element is at."""


@dataclasses.dataclass(frozen=True)
class PlainKeys:
    """Keys and values of content alone."""

    k: tf.Tensor  # [N, B, K, H]
    v: tf.Tensor  # [N, B, K, H]
    training: bool = True  # gradients will be asked for

    def attend(self, queries, stream, seed=None, rate=0.0):
        """See `AttendedKeys`; queries [N, B, Q, H]."""
        if not self.training:
            return attend_in_turn(queries, self.k, self.v, stream.mask)
        return attend(queries, self.k, self.v, stream.mask, seed, rate)


def blocked_keys(
    input_mask: tf.Tensor | None, documents: tf.Tensor | None = None
) -> tf.Tensor | None:
    """Who may not see whom: padding, and other documents of a packed row.

    bool [B, 1 or T, T], True = blocked; None = nobody is. Unlike in
    `masks.attention_masks`, a row of padding does not see itself.

    Args:
      input_mask: [B, T], 1 = real token; None = all.
      documents: int [B, T], number of the document that a token belongs to;
        None = one per row.
    """
    blocked = None
    if input_mask is not None:
        blocked = tf.equal(tf.cast(input_mask, tf.int32), 0)[:, tf.newaxis]
    return masks.any_of(blocked, masks.other_documents(documents))


def mask_of(
    input_mask: tf.Tensor | None, documents: tf.Tensor | None = None
) -> tf.Tensor | None:
    """`blocked_keys` as what is added to scores, float32 [B, 1 or T, T]."""
    return masks.bias(blocked_keys(input_mask, documents))


def scores(
    q: tf.Tensor,
    k: tf.Tensor,
    mask: tf.Tensor | None = None,
) -> tf.Tensor:
    """float32 [N, B, Q, K] of q [N, B, Q, H], k [N, B, K, H].

    `mask` float32 [B or 1, Q or 1, K] is added to every head's.
    """
    product = tf.matmul(q, k, transpose_b=True)  # [N, B, Q, K]
    scaled = _scaled(product, mask, scale=q.shape[-1] ** -0.5)
    return tf.ensure_shape(scaled, [None] * 4)


def attend(
    q: tf.Tensor,
    k: tf.Tensor,
    v: tf.Tensor,
    mask: tf.Tensor | None = None,
    seed: tf.Tensor | None = None,
    rate: float = 0.0,
    windows: Windows | None = None,
) -> tf.Tensor:
    """dropout(softmax(scores)) v.

    The plain form:

      scores = einsum("nbqh,nbkh->nbqk", q, k) / sqrt(H) + mask
      vector = einsum("nbqk,nbkh->nbqh", dropout(softmax(scores)), v)

    Args:
      q: [N, B, Q, H]; so is the result.
      k, v: [N, B, K, H].
      mask: float32 [B or 1, Q or 1, K], added to the scores; None = nothing.
      seed, rate: see `AttendedKeys`.
      windows: makes the keys and values of each row of the batch from k and v,
        again in the backward pass, instead of keeping them; None = they are k
        and v.
    """
    scale = q.shape[-1] ** -0.5
    of = windows.of if windows else lambda x: x
    total = windows.total if windows else lambda x: x

    @tf.custom_gradient
    def run(q, k, v):
        p = probabilities(scores(q, of(k), mask), v.dtype)
        dropped = drop_probabilities(p, seed, rate=rate)
        out = tf.matmul(dropped, of(v))  # [N, B, Q, H]

        def gradient(d_out):
            with tf.control_dependencies([d_out]):
                near = of(v)
            d_scores, d_v = value_gradients(p, near, out, d_out, seed, rate)
            with tf.control_dependencies([d_scores]):
                near = of(k)
            d_q = tf.matmul(d_scores, near) * tf.cast(scale, q.dtype)
            d_k = tf.matmul(d_scores, q, transpose_a=True)
            d_k = total(d_k * tf.cast(scale, k.dtype))
            return d_q, d_k, total(d_v)

        return out, gradient

    return run(q, k, v)


def attend_in_turn(q, k, v, mask=None) -> tf.Tensor:
    """`attend` without dropout, in groups of heads.

    Only the scores of two groups are alive. Training, which keeps the
    probabilities of all layers, would need 1.5 percent less, and does without.
    """
    n_head, batch, query_len, _ = sizes(q)
    groups = 1
    if not static_only():
        key_len = sizes(k)[2]
        groups = chunked.head_groups(n_head, batch, query_len, key_len)
    if groups == 1:
        return attend(q, k, v, mask)
    return chunked.by_heads(
        [q, k, v], groups, lambda _, q, k, v: attend(q, k, v, mask)
    )


@fusion.compiled
def _scaled(product, mask, scale):
    product = tf.cast(product, tf.float32) * scale
    return product if mask is None else product + mask
