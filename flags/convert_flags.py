"""Flags of `python -m data.convert_corpus`."""

from data.corpus.options import ConvertOptions
from flags import flag_values


def define() -> None:
    """Registers the converter's flags."""
    flag_values.define(ConvertOptions)


def from_flags() -> ConvertOptions:
    """The parsed flags as options."""
    return flag_values.build(ConvertOptions)
