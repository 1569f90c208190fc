"""Flags of `serving.export`."""

from flags import flag_values, text_flags
from serving.options import ExportOptions


def define() -> None:
    """Registers the flags of the export."""
    flag_values.define(ExportOptions)
    text_flags.define()


def from_flags() -> ExportOptions:
    """The parsed flags as options."""
    return flag_values.build(ExportOptions, text=text_flags.from_flags())
