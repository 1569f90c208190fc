"""What attention of a model did in a call: terms, scores, probabilities.

Letters: B batch, T segment length, Q query rows, M memory, K keys, R relative
positions, N heads, H head size.

Of Transformer-XL's scores (section 3.3), before 1 / sqrt(H):
  (a) q_i k_j    (b) q_i r_(i-j)    (c) u k_j    (d) v r_(i-j)
"""

import contextlib
import dataclasses
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from common.errors import UserError
from modeling.attention import relative
from modeling.attention.attend import Stream
from modeling.attention.relative import Keys
from modeling.attention.relative_attention import RelativeAttention
from modeling.checkpoints.names import encoder_of


@dataclasses.dataclass(frozen=True)
class Observed:
    """One stream of one layer.

    Attributes:
      layer: its number from 0.
      attention: the layer's.
      q: [B, Q, N, H], without biases, not scaled.
      keys: what was attended to.
      stream: which rows these are and what they may see.
    """

    layer: int
    attention: RelativeAttention
    q: tf.Tensor
    keys: Keys
    stream: Stream

    def terms(self) -> dict[str, np.ndarray]:
        """(a), (b), (c), (d), each [N, B, Q, K], not scaled."""
        q = tf.transpose(self.q, [2, 0, 1, 3])  # [N, B, Q, H]
        u, v = (
            tf.broadcast_to(bias[:, tf.newaxis, tf.newaxis], tf.shape(q))
            for bias in self.keys.biases[:2]
        )

        def by_content(q):
            return tf.matmul(q, self.keys.k, transpose_b=True).numpy()

        def by_position(q):
            scores = relative.position_scores(q, self.keys.r)
            return self.keys.shift(scores, self.stream.positions).numpy()

        return {
            "a": by_content(q),
            "b": by_position(q),
            "c": by_content(u),
            "d": by_position(v),
        }

    def scores(self) -> np.ndarray:
        """float32 [N, B, Q, K], scaled; about -1e30 where nothing is seen."""
        attention = self.attention
        seg_embed = (
            attention.seg_embed if self.stream.segments is not None else None
        )
        queries = relative.make_queries(self.q, self.keys.biases, seg_embed)
        scores, _ = relative.masked_scores(queries, self.keys, self.stream)
        return scores.numpy()

    def probabilities(self) -> np.ndarray:
        """float32 [N, B, Q, K], 1 in sum over the keys.

        0 in a row of the query stream that sees no key.
        """
        probabilities = tf.nn.softmax(self.scores())
        if self.stream.gate is not None:
            probabilities *= self.stream.gate[..., tf.newaxis]
        return probabilities.numpy()

    def alone(self) -> dict[str, np.ndarray]:
        """(a), (b), (d), each with the mask and a softmax of its own."""
        mask = 0.0 if self.stream.mask is None else self.stream.mask.numpy()
        scale = self.q.shape[-1] ** -0.5
        return {
            name: tf.nn.softmax(term * scale + mask).numpy()
            for name, term in self.terms().items()
            if name != "c"
        }


@contextlib.contextmanager
def observed(model) -> Iterator[list[Observed]]:
    """Collects what eager calls of a model do, layer after layer.

    A layer with a query stream comes twice, content first.

    Raises:
      UserError: attention of another kind than Transformer-XL's.
    """
    attentions = [block.rel_attn for block in encoder_of(model).blocks]
    for attention in attentions:
        if "r" not in getattr(attention, "kernels", {}):
            raise UserError(
                "wanted a model with Transformer-XL's relative positions, "
                f"found {type(attention).__name__}"
            )
    calls: list[Observed] = []

    def watch(layer, attention):
        def queries(q, keys, stream, *context):
            calls.append(Observed(layer, attention, q, keys, stream))
            return type(attention).queries(attention, q, keys, stream)

        vars(attention)["queries"] = queries

    for layer, attention in enumerate(attentions):
        watch(layer, attention)
    try:
        yield calls
    finally:
        for attention in attentions:
            del vars(attention)["queries"]


def by_distance(weights: np.ndarray, memory: int, reach: int) -> np.ndarray:
    """[..., T, K] -> [..., T, reach + 1]: what lies 0, 1, .. tokens back.

    Args:
      weights: of all T rows in order; K = memory + T.
      memory: M.
      reach: at most M, so that every row has such keys.
    """
    rows = np.arange(weights.shape[-2])[:, np.newaxis]
    return weights[..., rows, memory + rows - np.arange(reach + 1)]


def around(weights: np.ndarray) -> np.ndarray:
    """[..., T, T] -> mean by j - i, [..., 2T - 1], from -(T - 1) to T - 1.

    Of every offset over the rows that have such a key.
    """
    length = weights.shape[-1]
    return np.stack(
        [
            np.diagonal(weights, offset, -2, -1).mean(-1)
            for offset in range(1 - length, length)
        ],
        -1,
    )
