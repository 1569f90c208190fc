"""Flags of `serving.predict`."""

from flags import flag_values
from serving.options import EnsembleOptions, PredictOptions


def define() -> None:
    """Registers the flags of batch prediction."""
    flag_values.define(PredictOptions)


def define_ensemble() -> None:
    """Registers the flags of several models that answer together."""
    flag_values.define(EnsembleOptions)
    flag_values.define(PredictOptions, without=("saved_model_dir",))


def from_flags() -> PredictOptions:
    """The parsed flags as options."""
    return flag_values.build(PredictOptions)


def ensemble_from_flags() -> EnsembleOptions:
    """The parsed flags of `define_ensemble` as options.

    Raises:
      UserError: a value is out of range.
    """
    rows = flag_values.build(PredictOptions, saved_model_dir="")
    return flag_values.build(EnsembleOptions, rows=rows)
