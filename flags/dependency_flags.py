"""Flags of `modeling.explain_dependencies`."""

from flags import flag_values
from modeling.options import DependencyOptions


def define() -> None:
    """Registers the flags; their defaults are the paper's example."""
    flag_values.define(DependencyOptions)


def from_flags() -> DependencyOptions:
    """The parsed flags as options."""
    return flag_values.build(DependencyOptions)
