"""What queries attend to: keys, whatever they are, and streams.

  vector_i = sum_j dropout(softmax_j(score_ij + mask_ij)) v_j

Letters: B batch, T segment length, Q query rows (T, or P in the query stream),
K keys, N heads, H head size.

| keys | scores | who |
|---|---|---|
| `relative.Keys` | content, position, segment (XLNet 2.2, 2.5) | a stream |
| `chunked.ChunkedKeys` | the same, less alive at a time | both streams |
| `cached.CachedKeys` | the same, of a text that grows | generation, XLNet |
| `ring.RingKeys` | content, position; the last M | generation, Transformer-XL |
| `plain.PlainKeys` | content | BERT, ModernBERT's global layers |
| `local.LocalKeys` | content, near keys only | ModernBERT's local layers |
"""

import dataclasses
from typing import Any, Protocol

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Stream:
    """One stream, the same in every layer."""

    # float32 [B or 1, Q or 1, K] added to the scores, or None
    mask: tf.Tensor | None = None
    # [B, Q, K], 1 where segments differ, or None
    segments: tf.Tensor | None = None
    # int32 [B, P], which rows of the segment; None = all T in order
    positions: tf.Tensor | None = None
    # float32 [B or 1, Q] factor of the attention vector, 0 for a row that sees
    # nothing; None = 1
    gate: tf.Tensor | None = None


ALL = Stream()  # every row, everything visible


@dataclasses.dataclass(frozen=True)
class Streams:
    """Both streams of one call."""

    content: Stream = ALL  # h, which is also what both attend to
    query: Stream | None = None  # g, or None without one
    # how position scores are aligned with keys, "gather" (CPU, GPU), "radix" or
    # "factored" (TPU), see `modeling.attention.positions`
    shift: str = "gather"


NO_QUERIES = Streams()


class AttendedKeys(Protocol):
    """Keys and values of a layer, which know how queries meet them."""

    def attend(
        self,
        queries: Any,
        stream: Stream,
        seed: tf.Tensor | None = None,
        rate: float = 0.0,
    ) -> tf.Tensor:
        """Attention vectors [N, B, Q, H] of the rows of one stream.

        Args:
          queries: `relative.Queries`, or [N, B, Q, H] for scores of content.
          stream: what the rows may see, and which rows they are.
          seed: int32 [2] of the dropout site, or None.
          rate: of dropout on the probabilities.
        """
        ...
