"""Flags of `python -m data.create_pretraining_data`."""

from data.pretraining.options import BuildOptions
from flags import flag_values, text_flags


def define() -> None:
    """Registers the builder's flags."""
    flag_values.define(BuildOptions)
    text_flags.define()


def from_flags() -> BuildOptions:
    """The parsed flags as options."""
    return flag_values.build(BuildOptions, text=text_flags.from_flags())
