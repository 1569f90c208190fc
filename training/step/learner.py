"""What training steps change: a model, its optimizer, its memory."""

import dataclasses

import tensorflow as tf
import tf_keras

from modeling.encoders import sizes
from training.objectives.contract import Objective
from training.optim.loss_scale import LossScale
from training.optim.optimizer import AdamW, build_optimizer
from training.optim.schedules import Schedule
from training.optim.variable_groups import Group, build_groups
from training.recurrent.memory_state import RecurrentMemory
from training.run_options import OptimizerOptions
from training.step.batch_split import BatchSplit


@dataclasses.dataclass(frozen=True)
class Learner:
    """A model with all that its training steps read and write."""

    objective: Objective
    strategy: tf.distribute.Strategy
    split: BatchSplit
    model: tf_keras.Model
    variables: dict[str, tf.Variable]
    groups: dict[str, Group]
    optimizer: AdamW
    # recurrent memory; None for an objective without
    memory: RecurrentMemory | None
    loss_scale: LossScale | None  # for float16, else None


def build_learner(
    objective: Objective,
    strategy: tf.distribute.Strategy,
    split: BatchSplit,
    options: OptimizerOptions,
    train_steps: int,
) -> Learner:
    """New weights, slots and memory; UserError where they do not fit."""
    if not tf.config.list_physical_devices("GPU"):
        sizes.check(objective.config, 4 if options.averages else 3)
    with strategy.scope():
        model = objective.build_model()
        variables = objective.named_variables(model)
        groups = build_groups(
            variables,
            objective.config.n_layer,
            options,
            objective.variable_tasks(model),
        )
        schedule = Schedule(options, train_steps)
        optimizer = build_optimizer(options, schedule, variables, groups)
        loss_scale = None
        if model.compute_dtype == "float16":
            loss_scale = LossScale(row_count=split.replica_rows)
    memory = None
    if objective.memory_len:
        memory = RecurrentMemory(objective, model, strategy, split)
    return Learner(
        objective,
        strategy,
        split,
        model,
        variables,
        groups,
        optimizer,
        memory,
        loss_scale,
    )
