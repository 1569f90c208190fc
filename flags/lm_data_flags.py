"""Flags of `python -m data.create_lm_data`."""

from data.language_modeling.options import LMDataOptions
from flags import flag_values


def define() -> None:
    """Registers the builder's flags."""
    flag_values.define(LMDataOptions)


def from_flags() -> LMDataOptions:
    """The parsed flags as options."""
    return flag_values.build(LMDataOptions)
