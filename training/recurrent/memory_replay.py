"""Recurrent memory made again from the data before a step.

After a restore with `--memory_checkpoint=recompute` there is no memory of the
steps before. The forward passes of the last segments are run again, with their
dropout but with today's weights, which are not those that the memory was made
with: near to it, not bit for bit.
"""

import functools

import tensorflow as tf

from common.errors import UserError
from training.objectives.contract import Memory
from training.recurrent.memory_state import reset_rows
from training.run_options import RunOptions
from training.step.batch_split import distribute
from training.step.learner import Learner
from training.step.train_step import fold_micro_batch, fold_seed


def remake(
    learner: Learner, options: RunOptions, input_fn, step: int
) -> list[str]:
    """The memory of a restored run that has not read one; notes on it.

    Raises UserError: a setting of the memory is given to a model without one.
    """
    how = options.memory_checkpoint
    if not learner.memory:
        _check_unused(options)
        return []
    if not step:
        return []
    more = "the run continues, but not bit for bit as before"
    if how == "none" or options.reset_memory:
        return [f"note: the memory starts empty: {more}"]
    if how == "exact":
        return []
    count = replay(learner, input_fn, options.strategy.seed, step)
    return [
        f"note: the memory was rebuilt from the {count} steps before "
        f"step {step + 1}, with the weights of now: {more}"
    ]


def _check_unused(options: RunOptions) -> None:
    for name in ("reset_memory", "memory_checkpoint"):
        value = getattr(options, name)
        if value != getattr(RunOptions, name):
            raise UserError(
                f"--{name}: wanted a model with recurrent memory, found one "
                "without: leave it out, or give a new model --mem_len"
            )


def replay(learner: Learner, input_fn, seed: int, step: int) -> int:
    """Gives the replicas the memory that step `step` begins with, about.

    Returns how many steps were read again: as many as fill the memory of every
    layer with states that had seen a whole one, at most all.
    """
    memory = learner.memory
    memory.clear()
    # What a segment adds is known from the shape of a batch.
    _, spec = distribute(learner.strategy, input_fn, learner.split)
    count = min(step, segments_needed(learner.objective, spec))
    if not count:
        return 0
    first = step - count
    dataset, _ = distribute(learner.strategy, input_fn, learner.split, first)

    @tf.function(autograph=False)
    def forward(batch, number):
        learner.strategy.run(_forward, args=(learner, batch, seed, number))

    batches = iter(dataset)
    for number in range(first, step):
        forward(next(batches), tf.constant(number, tf.int64))
    return count


def segments_needed(objective, spec: dict) -> int:
    """Segments after which a memory does not depend on how it began.

    A layer's slots need ceil(M / what a segment adds) segments whose lower
    layer was right.
    """
    config = objective.config
    adds = getattr(config, "reuse_len", None) or spec["input_ids"].shape[-1]
    return config.n_layer * -(-objective.memory_len // adds)


def _rows(start: int, count: int, x: tf.Tensor) -> tf.Tensor:
    return x[start : start + count]


def _forward(learner: Learner, batch, seed: int, step: tf.Tensor) -> None:
    """One replica's step without its update."""
    context = tf.distribute.get_replica_context()
    replica = tf.cast(context.replica_id_in_sync_group, tf.int32)
    folded = fold_seed(seed, step, replica)
    parts = learner.split.accumulation_steps
    memory = learner.memory.read()
    outputs = []
    size = learner.split.micro_batch_rows
    for i, start in enumerate(range(0, parts * size, size)):
        rows = functools.partial(_rows, start, size)
        part, old = tf.nest.map_structure(rows, (batch, memory))
        output = learner.objective.loss(
            learner.model,
            part,
            reset_rows(old, part["reset_memory"]),
            training=True,
            seed=folded if parts == 1 else fold_micro_batch(folded, i),
        )
        outputs.append(output.new_memory)
    layers = zip(*(m.layers for m in outputs), strict=True)
    learner.memory.write(
        Memory(
            tuple(tf.concat(layer, 0) for layer in layers),
            tf.concat([m.length for m in outputs], 0),
        )
    )
