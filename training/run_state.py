"""The objects of one training run, built and restored."""

import dataclasses

import tf_keras

from common.errors import UserError
from modeling.checkpoints import native
from training import strategy as strategy_lib
from training.batch_split import BatchSplit
from training.checkpoints import (
    RunCheckpoints,
    check_config,
    restore_weights,
)
from training.learner import Learner, build_learner
from training.objectives.contract import Objective
from training.options import RunOptions


@dataclasses.dataclass(frozen=True)
class RunState:
    """Everything a training run holds between host loops.

    Attributes:
      options: of the run.
      learner: model, optimizer, memory.
      checkpoints: which save the learner's state.
      chief: this process writes.
      start_step: updates that the restored checkpoint has made.
      restored_from: that checkpoint, or the one of a warm start, or None.
    """

    options: RunOptions
    learner: Learner
    checkpoints: RunCheckpoints
    chief: bool
    start_step: int = 0
    restored_from: str | None = None


def open_run(objective: Objective, options: RunOptions) -> RunState:
    """Builds, then restores from `model_dir` or warm-starts.

    Precedence: the newest checkpoint of `model_dir`, `init_checkpoint`, random
    weights.

    Raises:
      UserError: the batch does not divide, `model_dir` holds another model,
        or a checkpoint cannot be read.
    """
    strategy = strategy_lib.setup(options.strategy)
    chief = strategy_lib.is_chief(strategy)
    split = BatchSplit(
        options.train_batch_size,
        strategy.num_replicas_in_sync,
        options.grad_accumulation_steps,
        objective.row_groups,
    )
    check_config(options.model_dir, objective)
    # A second run in the same process starts from the same weights.
    tf_keras.utils.set_random_seed(options.strategy.seed)
    learner = build_learner(
        objective,
        strategy,
        split,
        options.optimizer,
        options.train_steps,
        saves_memory=True,
    )
    memory, loss_scale = learner.memory, learner.loss_scale
    items = {"model": learner.model, "optimizer": learner.optimizer.state}
    if memory and not options.reset_memory:
        items["memory"] = memory.state
    if loss_scale:
        items["loss_scale"] = loss_scale.state
    checkpoints = RunCheckpoints(
        options.model_dir, items, options.max_save, chief
    )
    step, path = _restore(learner, checkpoints, options)
    if memory and options.reset_memory:
        # From here on it is saved again.
        checkpoints.add("memory", memory.state)
    return RunState(options, learner, checkpoints, chief, step, path)


def _restore(
    learner: Learner, checkpoints: RunCheckpoints, options: RunOptions
) -> tuple[int, str | None]:
    """(step to go on from, checkpoint that was read)."""
    strategy, optimizer = learner.strategy, learner.optimizer
    path = checkpoints.latest()
    if path:
        keeps_memory = learner.memory and not options.reset_memory
        if keeps_memory:
            _check_memory_shape(path, options.train_batch_size)
        with strategy.scope():
            checkpoints.restore(path)
        if keeps_memory:
            learner.memory.scatter()
        return int(optimizer.step.numpy()), path
    if not options.init_checkpoint:
        return 0, None
    path = options.init_checkpoint
    restore_weights(strategy, learner.model, path, options.init_require)
    with strategy.scope():
        # The average starts where the weights do.
        for name, average in optimizer.ema.items():
            average.assign(learner.variables[name])
    return 0, path


def _check_memory_shape(path: str, wanted: int) -> None:
    """Another batch size has other rows: the memory cannot be kept."""
    shapes = native.open_reader(path).get_variable_to_shape_map()
    found = shapes.get("memory/length/.ATTRIBUTES/VARIABLE_VALUE")
    if found is None:
        raise UserError(
            f"{path} holds no memory; give --reset_memory to start with an "
            "empty one"
        )
    if found[0] != wanted:
        raise UserError(
            f"{path} holds the memory of {found[0]} rows, wanted "
            f"--train_batch_size={wanted}; give --train_batch_size={found[0]} "
            "to go on with it, or --reset_memory to start with an empty one"
        )
