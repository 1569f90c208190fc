"""Flags of `modeling.explain_permutation`."""

from flags import flag_values
from modeling.options import ExplainOptions


def define() -> None:
    """Registers the flags."""
    flag_values.define(ExplainOptions)


def from_flags() -> ExplainOptions:
    """The parsed flags as options."""
    return flag_values.build(ExplainOptions)
