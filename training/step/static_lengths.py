"""Batches of several shapes without their padding, in shapes that are known.

Length buckets, where every shape must be known (a TPU): rows come padded to the
longest bucket, and the step cuts them to the smallest one that holds what is
real: one program, a switch with a branch for each. Tasks: a batch is of one of
several, each with a length and a loss of its own.

Packing: the rows of a micro-batch share rows (`modeling.ops.packing`), so many
of them as are needed, rounded up: one program of unknown shape, or, where
shapes must be known, a branch for each of a few numbers. Batches, their order
and what a step computes are the same as without.

What is left out is padding: results are equal.
"""

import functools
from collections.abc import Callable

import tensorflow as tf

from common.contract.schema import LENGTH_FIELDS
from modeling.ops import packing
from training.objectives.contract import Batch, Objective

# Numbers of packed rows: with one program, and with a branch for each.
_COUNTS, _BRANCHES = 16, 8


def shapes_differ(objective: Objective) -> bool:
    """Rows are cut or packed; else every batch is run as it is."""
    several = len(objective.static_lengths) > 1
    return bool(objective.task_lengths or objective.pack or several)


def by_length(
    objective: Objective, batch: Batch, run: Callable, known: bool = False
):
    """What `run` gives for the batch, cut to the bucket that fits, or packed.

    Args:
      objective: its `static_lengths` are the buckets, rising; with fewer than
        two and without `pack` the batch is run as it is. `pads_left` says
        where padding is. With `task_lengths` the branch is that of the batch's
        `task`, which `run` then finds as a number of Python's.
      batch: rows of the last bucket's length, or of the task's at least.
      run: batch -> tensors of shapes that do not depend on the length. A
        packed one has a `modeling.ops.packing.Packing` as `packing`.
      known: every shape must be (XLA); so it is on a TPU.
    """
    if not shapes_differ(objective):
        return run(batch)
    if objective.task_lengths:
        return _by_task(objective, batch, run)
    if objective.pack:
        strategy = tf.distribute.get_strategy()
        return _packed(batch, run, known or "TPU" in type(strategy).__name__)
    lengths = objective.static_lengths
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


def _packed(batch: Batch, run: Callable, known: bool):
    real = tf.cast(batch["input_mask"], tf.bool)  # [B, (C,) T]
    for name in ("example_weight", "row_weight"):
        if name in batch:  # rows that do not count need no place
            counts = tf.reshape(
                batch[name] > 0, [-1, *[1] * (real.shape.rank - 1)]
            )
            real &= counts
    real = tf.reshape(real, [-1, tf.shape(real)[-1]])
    rows = batch["input_mask"].shape[:-1].num_elements()
    real.set_shape([rows, batch["input_mask"].shape[-1]])
    places = packing.find_places(real)
    counts = packing.row_counts(rows, _BRANCHES if known else _COUNTS)
    larger = places.needed > tf.constant(counts[:-1], tf.int32)
    number = tf.reduce_sum(tf.cast(larger, tf.int32))

    def run_as(count):
        return run(batch | {"packing": places.packing(count)})

    if not known:
        return run_as(tf.constant(counts)[number])
    return tf.switch_case(
        number, [functools.partial(run_as, count) for count in counts]
    )
