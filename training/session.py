"""The objects of one run, made in the right order and scope."""

import dataclasses
import math
import os

import tensorflow as tf
import tf_keras

from common.errors import UserError
from modeling.encoders.contract import EncoderConfig
from modeling.encoders.registry import config_file_in, read_config
from training import strategy as strategy_lib
from training.batch_split import row_order
from training.checkpoints import BEST, RunCheckpoints
from training.memory_state import RecurrentMemory
from training.objectives.contract import Objective
from training.optim.loss_scale import LossScale
from training.optim.optimizer import AdamW
from training.optim.schedules import Schedule
from training.optim.variable_groups import Group, build_groups
from training.options import RunOptions


@dataclasses.dataclass
class Session:
    """Everything a training run holds between host loops."""

    objective: Objective
    options: RunOptions
    strategy: tf.distribute.Strategy
    chief: bool
    model: tf_keras.Model
    optimizer: AdamW
    groups: dict[str, Group]
    memory: RecurrentMemory | None
    loss_scale: LossScale | None
    checkpoints: RunCheckpoints
    start_step: int = 0
    restored_from: str | None = None


def open_session(objective: Objective, options: RunOptions) -> Session:
    """Builds, then restores from `model_dir` or warm-starts.

    Precedence: the newest checkpoint of `model_dir`, `init_checkpoint`, random
    weights.

    Raises:
      UserError: the batch does not divide, `model_dir` holds another model,
        or a checkpoint cannot be read.
    """
    strategy = strategy_lib.setup(options.strategy)
    chief = strategy_lib.is_chief(strategy)
    order = row_order(
        options.train_batch_size,
        strategy.num_replicas_in_sync,
        options.grad_accumulation_steps,
        objective.row_groups,
    )
    check_config(options.model_dir, objective)
    # A second run in the same process starts from the same weights.
    tf_keras.utils.set_random_seed(options.strategy.seed)
    with strategy.scope():
        model = objective.build_model()
        variables = objective.named_variables(model)
        groups = build_groups(
            variables, objective.config.n_layer, options.optimizer
        )
        schedule = Schedule(options.optimizer, options.train_steps)
        optimizer = AdamW(options.optimizer, schedule, variables, groups)
        loss_scale = None
        if options.strategy.precision == "mixed_float16":
            loss_scale = LossScale(row_count=order.shape[1])
    memory = _make_memory(objective, options, strategy)
    items = {"model": model, "optimizer": optimizer.state}
    if memory and not options.reset_memory:
        items["memory"] = memory.state
    if loss_scale:
        items["loss_scale"] = loss_scale.state
    checkpoints = RunCheckpoints(
        options.model_dir, items, options.max_save, chief
    )
    session = Session(
        objective,
        options,
        strategy,
        chief,
        model,
        optimizer,
        groups,
        memory,
        loss_scale,
        checkpoints,
    )
    _restore(session)
    return session


def _make_memory(objective, options, strategy) -> RecurrentMemory | None:
    if not objective.memory_len:
        return None
    return RecurrentMemory(
        strategy,
        options.train_batch_size,
        options.grad_accumulation_steps,
        objective.row_groups,
        objective.config.n_layer,
        objective.memory_len,
        objective.config.d_model,
        memory_dtype(options),
    )


def _restore(session: Session) -> None:
    options = session.options
    path = session.checkpoints.latest()
    if path:
        _check_memory_shape(session, path)
        with session.strategy.scope():
            session.checkpoints.restore(path)
        session.start_step = int(session.optimizer.step.numpy())
        session.restored_from = path
        if session.memory and not options.reset_memory:
            session.memory.scatter()
    elif options.init_checkpoint:
        warm_start(
            session.strategy,
            session.model,
            options.init_checkpoint,
            options.init_require,
        )
        session.restored_from = options.init_checkpoint
        with session.strategy.scope():
            # The average starts where the weights do.
            for name, average in session.optimizer.ema.items():
                variables = session.objective.named_variables(session.model)
                average.assign(variables[name])
    if session.memory and options.reset_memory:
        # From here on it is saved again.
        session.checkpoints.add("memory", session.memory.state)


def warm_start(strategy, model, path: str, require: str):
    """Weights from any checkpoint that `modeling.checkpoints.restore` reads."""
    from modeling.checkpoints import restore as checkpoints

    with strategy.scope():
        return checkpoints.restore(model, path, require=require)


def _check_memory_shape(session: Session, path: str) -> None:
    """Another batch size has other rows: the memory cannot be kept."""
    if session.memory is None or session.options.reset_memory:
        return
    shapes = tf.train.load_checkpoint(path).get_variable_to_shape_map()
    found = shapes.get("memory/length/.ATTRIBUTES/VARIABLE_VALUE")
    wanted = session.options.train_batch_size
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


def memory_dtype(options: RunOptions) -> str:
    """Hidden states, and so memory, have the policy's compute dtype."""
    return options.strategy.precision.removeprefix("mixed_")


def check_config(model_dir: str, objective: Objective) -> None:
    """`model_dir` must hold no model of another architecture.

    Raises:
      UserError: lists every field, wanted against found.
    """
    path = config_file_in(model_dir)
    # Without a checkpoint the folder binds nobody to a configuration.
    if path is None or not tf.train.latest_checkpoint(model_dir):
        return
    wanted = saved_config(objective).architecture()
    found = read_config(path).architecture()
    wrong = [
        f"`{name}` wanted {value}, found {found.get(name)}"
        for name, value in wanted.items()
        if (value or 0) != (found.get(name) or 0)
    ]
    if wrong:
        raise UserError(
            f"{path} is of another model: {'; '.join(wrong)}; use another "
            "--model_dir or the flags it was made with"
        )


def saved_config(objective: Objective) -> EncoderConfig:
    """The configuration to write beside the weights."""
    return getattr(objective, "saved_config", objective.config)


def checkpoint_to_read(options: RunOptions) -> str:
    """What evaluation and prediction use: `best/`, the newest, or the start.

    Raises:
      UserError: there is none.
    """
    for folder in (os.path.join(options.model_dir, BEST), options.model_dir):
        found = tf.train.latest_checkpoint(folder)
        if found:
            return found
    if options.init_checkpoint:
        return options.init_checkpoint
    raise UserError(
        f"{options.model_dir} holds no checkpoint: train first or give "
        "--init_checkpoint"
    )


def steps_to_boundary(options: RunOptions, step: int) -> int:
    """Steps of the next host loop: it ends where something is due."""
    periods = (options.iterations, options.save_steps, options.eval_every)
    ends = [(step // p + 1) * p for p in periods if p]
    return min([*ends, options.train_steps]) - step


def perplexity(loss: float) -> float:
    """exp(loss) without overflow."""
    return math.exp(min(loss, 700.0))
