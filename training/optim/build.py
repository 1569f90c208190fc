"""From options to an optimizer: another kind is its class and a row here."""

import tensorflow as tf

from training.optim.optimizer import AdamW
from training.optim.schedules import Schedule
from training.optim.stable_adamw import StableAdamW
from training.optim.variable_groups import Group
from training.run_options import OptimizerOptions

KINDS = {"adamw": AdamW, "stable_adamw": StableAdamW}


def build_optimizer(
    options: OptimizerOptions,
    schedule: Schedule,
    variables: dict[str, tf.Variable],
    groups: dict[str, Group],
) -> AdamW:
    """The optimizer of `options.optimizer`; arguments as `AdamW`'s."""
    return KINDS[options.optimizer](options, schedule, variables, groups)
