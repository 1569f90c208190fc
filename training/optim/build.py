"""From options to an optimizer.

Another kind is its class and a row of `training.run_options.OPTIMIZERS`.
"""

import tensorflow as tf

from common.references import resolve
from training.optim.optimizer import AdamW
from training.optim.schedules import Schedule
from training.optim.variable_groups import Group
from training.run_options import OPTIMIZERS, OptimizerOptions


def build_optimizer(
    options: OptimizerOptions,
    schedule: Schedule,
    variables: dict[str, tf.Variable],
    groups: dict[str, Group],
) -> AdamW:
    """The optimizer of `options.optimizer`; arguments as `AdamW`'s."""
    kind = resolve(OPTIMIZERS[options.optimizer])
    return kind(options, schedule, variables, groups)
