"""Flags of `modeling.convert_checkpoint`."""

from flags import flag_values
from modeling.options import ConvertOptions


def define() -> None:
    """Registers the flags."""
    flag_values.define(ConvertOptions)


def from_flags() -> ConvertOptions:
    """The parsed flags as options."""
    return flag_values.build(ConvertOptions)
