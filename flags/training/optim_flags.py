"""Flags of the optimizer and its schedule."""

from absl import flags

from flags import flag_values
from training.run_options import OptimizerOptions

FLAGS = flags.FLAGS
_OF_SCHEDULES = {
    ("wsd",): ("decay_shape",),
    ("poly", "cos", "wsd"): ("min_lr_ratio",),
}


def define(**defaults) -> None:
    """Registers the flags; of `defaults` those of `OptimizerOptions` count."""
    flag_values.define(OptimizerOptions, **defaults)


def from_flags(**changes) -> OptimizerOptions:
    """The parsed flags as options.

    Raises UserError: a value is out of range, or the schedule would ignore one
    that is given.
    """
    flag_values.check_followed(
        "decay_method", FLAGS.decay_method, _OF_SCHEDULES
    )
    return flag_values.build(OptimizerOptions, **changes)
