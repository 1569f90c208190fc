"""One program for batches of several shapes: a switch with a branch for each.

Length buckets, where every shape must be known (a TPU): rows come padded to the
longest bucket, and the step cuts them to the smallest one that holds what is
real. What is cut off is padding: results are equal. Tasks: a batch is of one of
several, each with a length and a loss of its own.
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
        two the batch is run as it is. `pads_left` says where padding is. With
        `task_lengths` the branch is that of the batch's `task`, which `run`
        then finds as a number of Python's.
      batch: rows of the last bucket's length, or of the task's at least.
      run: batch -> tensors of shapes that do not depend on the length.

    Returns:
      What `run` returns.
    """
    if objective.task_lengths:
        return _by_task(objective, batch, run)
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


def _by_task(objective: Objective, batch: Batch, run: Callable):
    def branch(task: int, length: int):
        rows = _cut(batch, length, objective.pads_left)
        for name in rows.keys() & set(LENGTH_FIELDS):
            shape = [*rows[name].shape[:-1], length]
            rows[name] = tf.ensure_shape(rows[name], shape)
        return run(rows | {"task": task})

    # A batch may be as short as its own task's: others are never cut from it.
    branches = [
        functools.partial(branch, task, length)
        for task, length in enumerate(objective.task_lengths)
    ]
    return tf.switch_case(batch["task"][0], branches)


def _cut(batch: Batch, length: int, pads_left: bool) -> Batch:
    kept = slice(-length, None) if pads_left else slice(0, length)
    return {
        name: x[..., kept] if name in LENGTH_FIELDS else x
        for name, x in batch.items()
    }
