"""Length buckets where every shape must be known: a TPU.

Rows come padded to the longest bucket. The step cuts them to the smallest one
that holds what is real, as one branch of a switch per bucket, so that one
program holds all the shapes. What is cut off is padding: results are equal.
"""

import functools
from collections.abc import Callable

import tensorflow as tf

from data.schema import LENGTH_FIELDS
from training.objectives.contract import Batch, Objective


def by_length(objective: Objective, batch: Batch, run: Callable):
    """`run(batch)`, the batch cut to the bucket that fits.

    Args:
      objective: its `static_lengths` are the buckets, rising; with fewer than
        two the batch is run as it is. `pads_left` says where padding is.
      batch: rows of the last bucket's length.
      run: batch -> tensors of shapes that do not depend on the length.

    Returns:
      What `run` returns.
    """
    lengths = objective.static_lengths
    if len(lengths) < 2:
        return run(batch)
    real = tf.reduce_sum(tf.cast(batch["input_mask"], tf.int32), -1)
    longest = tf.reduce_max(real)
    number = tf.reduce_sum(
        tf.cast(longest > tf.constant(lengths[:-1]), tf.int32)
    )
    branches = [
        functools.partial(run, _cut(batch, length, objective.pads_left))
        for length in lengths
    ]
    return tf.switch_case(number, branches)


def _cut(batch: Batch, length: int, pads_left: bool) -> Batch:
    kept = slice(-length, None) if pads_left else slice(0, length)
    return {
        name: x[..., kept] if name in LENGTH_FIELDS else x
        for name, x in batch.items()
    }
