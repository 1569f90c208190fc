"""Flags of `python -m data.filter_corpus`."""

from data.corpus.options import FilterOptions
from flags import flag_values


def define() -> None:
    """Registers the flags of the filters."""
    flag_values.define(FilterOptions)


def from_flags() -> FilterOptions:
    """The parsed flags as options."""
    return flag_values.build(FilterOptions)
