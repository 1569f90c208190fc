"""Flags of `modeling.explain_dependencies`."""

from absl import flags

from flags import flag_values
from modeling.options import DependencyOptions


def define() -> None:
    """Registers the flags; their defaults are the paper's example."""
    default = DependencyOptions
    flags.DEFINE_string("text", default.text, "The sentence, in words.")
    flags.DEFINE_list(
        "targets",
        list(default.targets),
        "Words to predict, or their places from 1, in the order in which they "
        "are predicted.",
    )


def from_flags() -> DependencyOptions:
    """The flags as options."""
    return flag_values.build(DependencyOptions)
