"""The one way from queries to attention vectors, whatever the keys are.

  vector_i = sum_j dropout(softmax_j(score_ij + mask_ij)) v_j

Letters: B batch, Q query rows, K keys, N heads, H head size.

| keys | scores | who |
|---|---|---|
| `relative.Keys` | content, position, segment (XLNet 2.2, 2.5) | a stream |
| `chunked.ChunkedKeys` | the same, less alive at a time | both streams |
| `cached.CachedKeys` | the same, of a text that grows | generation, XLNet |
| `ring.RingKeys` | content, position; the last M | generation, Transformer-XL |
| `plain.PlainKeys` | content | BERT, ModernBERT's global layers |
| `local.LocalKeys` | content, near keys only | ModernBERT's local layers |
"""

from typing import Any, Protocol

import tensorflow as tf

from modeling.attention.streams import ALL, Stream


class AttendedKeys(Protocol):
    """Keys and values of a layer, which know how queries meet them."""

    def attend(
        self,
        queries: Any,
        stream: Stream,
        seed: tf.Tensor | None,
        rate: float,
    ) -> tf.Tensor:
        """See the function `attend`."""
        ...


def attend(
    queries: Any,
    keys: AttendedKeys,
    stream: Stream = ALL,
    seed: tf.Tensor | None = None,
    rate: float = 0.0,
) -> tf.Tensor:
    """Attention vectors of the rows of one stream.

    Args:
      queries: `relative.Queries`, or [N, B, Q, H] for scores of content.
      keys: what the rows attend to.
      stream: what they may see, and which rows they are.
      seed: int32 [2] of the dropout site, or None.
      rate: of dropout on the probabilities.

    Returns:
      [N, B, Q, H].
    """
    return keys.attend(queries, stream, seed, rate)
