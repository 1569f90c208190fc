"""Flags of `modeling.average_checkpoints`."""

from flags import flag_values
from modeling.options import AverageOptions


def define() -> None:
    """Registers the flags."""
    flag_values.define(AverageOptions)


def from_flags() -> AverageOptions:
    """The parsed flags as options."""
    return flag_values.build(AverageOptions)
