"""Flags of the optimizer and its schedule."""

from absl import flags

from common.errors import UserError
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
    _check_values()
    return flag_values.build(OptimizerOptions, **changes)


def _check_values() -> None:
    """Raises UserError: the value of another flag leaves one without effect."""
    falls = FLAGS.decay_steps or FLAGS["decay_steps"].present
    if FLAGS.decay_method == "wsd" and not falls:
        for name in ("decay_method", "decay_shape", "min_lr_ratio"):
            if FLAGS[name].present:
                raise UserError(
                    f"--{name}={FLAGS[name].value}: the rate of wsd falls in "
                    "the last --decay_steps, found none: give them, or 0 to "
                    "stay at the peak"
                )
    if FLAGS["lr_layer_decay_style"].present and FLAGS.lr_layer_decay_rate == 1:
        raise UserError(
            "--lr_layer_decay_style is of --lr_layer_decay_rate below 1, found "
            "1: give both, or leave it out"
        )
