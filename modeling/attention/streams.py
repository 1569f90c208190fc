"""What the rows of a stream may see and where they stand.

Letters: B batch, T segment length, Q query rows (T, or P in the query stream),
K keys.
"""

import dataclasses

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Stream:
    """One stream, the same in every layer.

    Attributes:
      mask: float32 [B or 1, Q or 1, K] added to the scores, or None.
      segments: [B, Q, K], 1 where segments differ, or None.
      positions: int32 [B, P], which rows of the segment; None = all T in order.
      gate: float32 [B or 1, Q] factor of the attention vector, 0 for a row
        that sees nothing; None = 1.
    """

    mask: tf.Tensor | None = None
    segments: tf.Tensor | None = None
    positions: tf.Tensor | None = None
    gate: tf.Tensor | None = None


ALL = Stream()  # every row, everything visible


@dataclasses.dataclass(frozen=True)
class Streams:
    """Both streams of one call.

    Attributes:
      content: h, which is also what both attend to.
      query: g, or None without one.
      shift: how position scores are aligned with keys, "gather" (CPU, GPU) or
        "radix" (TPU), see `modeling.attention.positions`.
    """

    content: Stream = ALL
    query: Stream | None = None
    shift: str = "gather"


NO_QUERIES = Streams()
