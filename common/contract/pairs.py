"""Which rows of a batch hold a pair of texts."""

from collections.abc import Mapping

import tensorflow as tf

from common.contract import symbols


def has_pair(batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
    """float32 [B], 1 where a row has an A and a B, with a CLS behind them.

    At the end of a lane a row may have a reuse part alone. Of batches as the
    reader gives them, before rows are laid out for another encoder.
    """
    there = batch["input_mask"] > 0
    cls = there & (batch["segment_ids"] == symbols.SEGMENT_CLS)
    return tf.cast(tf.reduce_any(cls, 1), tf.float32)
