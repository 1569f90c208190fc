"""Flags of the optimizer and its schedule."""

from absl import flags

from common.errors import UserError
from flags import flag_values
from training.run_options import OptimizerOptions

FLAGS = flags.FLAGS
# Flag -> the values of --decay_method that follow it.
_OF_SCHEDULES = {
    "decay_shape": ("wsd",),
    "min_lr_ratio": ("poly", "cos", "wsd"),
}


def define(**defaults) -> None:
    """Registers the flags; of `defaults` those of `OptimizerOptions` count."""
    flag_values.define(OptimizerOptions, **defaults)


def from_flags(**changes) -> OptimizerOptions:
    """The parsed flags as options.

    Raises UserError: a value is out of range, or the schedule would ignore one
    that is given.
    """
    for name, methods in _OF_SCHEDULES.items():
        if FLAGS[name].present and FLAGS.decay_method not in methods:
            raise UserError(
                f"--{name} is of --decay_method={' or '.join(methods)}, "
                f"received --decay_method={FLAGS.decay_method}: leave it out"
            )
    return flag_values.build(OptimizerOptions, **changes)
