"""Flags of the optimizer and its schedule."""

from flags import flag_values
from training.run_options import (
    OptimizerOptions,
)


def define(**defaults) -> None:
    """Registers the flags; of `defaults` those of `OptimizerOptions` count."""
    flag_values.define(OptimizerOptions, **defaults)


def from_flags(**changes) -> OptimizerOptions:
    """The parsed flags as options."""
    return flag_values.build(OptimizerOptions, **changes)
