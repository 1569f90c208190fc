"""The objects of one training run, built and restored."""

import dataclasses
from collections.abc import Callable

import numpy as np
import tf_keras

from common.errors import UserError
from modeling.checkpoints import folder as checkpoint_folder
from modeling.checkpoints.restore import Source, resolve
from modeling.encoders.contract import EncoderConfig
from modeling.encoders.registry import config_file_in, read_config
from training import strategy as strategy_lib
from training.checkpointing import late_parts, memory_files
from training.checkpointing.checkpoints import (
    RunCheckpoints,
    check_folder,
    restore_weights,
)
from training.objectives.contract import Objective
from training.recurrent.memory_state import RecurrentMemory
from training.reporting import run_record
from training.run_options import RunOptions
from training.step.batch_split import BatchSplit
from training.step.learner import Learner, build_learner

# Fields that a run may have otherwise than the weights it begins with.
_OF_RUN = ("mem_len", "reuse_len", "clamp_len", "same_length", "blind_rows")


@dataclasses.dataclass(frozen=True)
class RunState:
    """Everything a training run holds between host loops."""

    options: RunOptions
    learner: Learner
    checkpoints: RunCheckpoints
    chief: bool
    # of several processes, else None
    meeting: strategy_lib.Meeting | None = None
    start_step: int = 0  # updates that the restored checkpoint has made
    # that checkpoint, or the one of a warm start, or None
    restored_from: str | None = None
    weights: Source | None = None  # of a warm start, and why these
    # on what the checkpoint lacks or `warm_start` changed, for the user
    notes: tuple[str, ...] = ()


def open_run(
    objective: Objective,
    options: RunOptions,
    warm_start: Callable | None = None,
    must_match: dict | None = None,
) -> RunState:
    """Builds, then restores from `model_dir` or warm-starts.

    Precedence: the newest checkpoint of `model_dir`, `init_checkpoint`, random
    weights. `warm_start` changes the model of the latter two; it returns lines
    for the user.
    Raises UserError: the batch does not divide, `model_dir` holds another
    model, a release or a run of other settings (`must_match`), or a checkpoint
    cannot be read.
    """
    strategy = strategy_lib.setup(options.strategy)
    chief = strategy_lib.is_chief(strategy)
    split = BatchSplit(
        options.train_batch_size,
        strategy.num_replicas_in_sync,
        options.grad_accumulation_steps,
        objective.row_groups,
    )
    check_folder(options.model_dir, objective)
    # A second run in the same process starts from the same weights.
    tf_keras.utils.set_random_seed(options.strategy.seed)
    learner = build_learner(
        objective,
        strategy,
        split,
        options.optimizer,
        options.train_steps,
    )
    exact = options.memory_checkpoint == "exact"
    meeting = strategy_lib.meeting_of(strategy)
    checkpoints = RunCheckpoints(
        options.model_dir,
        late_parts.saved_items(learner),
        options.max_save,
        chief,
        learner.memory if exact else None,
        meeting,
        options.async_save,
    )
    step, path, start, notes = _restore(
        learner, checkpoints, options, warm_start, must_match or {}
    )
    return RunState(
        options, learner, checkpoints, chief, meeting, step, path, start, notes
    )


def _restore(
    learner: Learner,
    checkpoints: RunCheckpoints,
    options: RunOptions,
    warm_start: Callable | None,
    must_match: dict,
) -> tuple[int, str | None, Source | None, tuple[str, ...]]:
    """(step to go on from, what was read, weights that it began with, notes)."""
    strategy, optimizer = learner.strategy, learner.optimizer
    path = checkpoints.latest()
    if path:
        # Memory and weights of other settings would only be said not to fit.
        if checkpoint_folder.step_of(path) > 0:
            run_record.check(options.model_dir, must_match)
        exact = options.memory_checkpoint == "exact"
        saved = None
        if learner.memory and exact and not options.reset_memory:
            saved = _open_memory(path, learner.memory)
        late = late_parts.Late(path, learner, options.train_steps)
        with strategy.scope():
            checkpoints.restore(path, late.items)
            notes = late.begin()
        if saved:
            rows = np.sort(learner.memory.own_rows())
            learner.memory.from_host(saved.read(rows))
        return int(optimizer.step.numpy()), path, None, tuple(notes)
    start, notes = begin(options, learner, warm_start)
    with strategy.scope():
        # The average starts where the weights do.
        for name, average in optimizer.averages.by_name.items():
            average.assign(learner.variables[name])
    return 0, start and start.path, start, notes


def begin(
    options: RunOptions, learner: Learner, warm_start: Callable | None
) -> tuple[Source | None, tuple[str, ...]]:
    """Gives a run without a checkpoint of its own its first weights.

    Whose they are, None = random ones, and the lines of `warm_start`.
    """
    start = None
    notes: tuple[str, ...] = ()
    if options.init_checkpoint:
        start = resolve(
            options.init_checkpoint,
            options.checkpoint_choice,
            options.init_part,
        )
        restore_weights(
            learner.strategy, learner.model, start, options.init_require
        )
        notes += other_architecture(start, learner.objective.config)
    if warm_start:
        with learner.strategy.scope():
            notes += tuple(warm_start(learner.model))
    return start, notes


def other_architecture(source: Source, ours: EncoderConfig) -> tuple[str, ...]:
    """A line about fields that the weights' own configuration has otherwise.

    --model_config_path comes before that file, and shapes may fit all the same:
    of fewer layers, of another activation or window.
    """
    try:
        path = config_file_in(source.folder)
        theirs = read_config(path).architecture() if path else {}
    except UserError:  # nobody needs a file that cannot be read
        return ()
    free = (*_OF_RUN, *getattr(ours, "extendable", ()))
    wrong = [
        f"`{name}` wanted {value}, found {theirs[name]}"
        for name, value in ours.architecture().items()
        if name in theirs and name not in free and value != theirs[name]
    ]
    if not wrong:
        return ()
    return (
        f"note: {path}: {'; '.join(wrong)}: the weights were made with what "
        "was found; to keep it leave --model_config_path out",
    )


def _open_memory(path: str, wanted: RecurrentMemory):
    """The memory of a checkpoint, which must be of the same rows and sizes."""
    saved = memory_files.open_memory(path)
    ways = (
        "--memory_checkpoint=recompute to make it again, or --reset_memory to "
        "start with an empty one"
    )
    if saved is None:
        raise UserError(f"{path} holds no memory; give {ways}")
    if saved.rows != wanted.rows:
        raise UserError(
            f"{path} holds the memory of {saved.rows} rows, wanted "
            f"--train_batch_size={wanted.rows}; give --train_batch_size="
            f"{saved.rows} to continue with it, {ways}"
        )
    if tuple(saved.shape) != wanted.shape:
        raise UserError(
            f"{path} holds a memory of {tuple(saved.shape)} (layers, slots, "
            f"width), wanted {wanted.shape}; give {ways}"
        )
    return saved
