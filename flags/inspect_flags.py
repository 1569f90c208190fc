"""Flags of `python -m data.inspect`."""

from data.pretraining.options import InspectOptions
from flags import flag_values


def define() -> None:
    """Registers the flags."""
    flag_values.define(InspectOptions)


def from_flags() -> InspectOptions:
    """The parsed flags as options."""
    return flag_values.build(InspectOptions)
