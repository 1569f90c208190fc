"""One name per variable: the original's, with per-layer pieces.

Optimizer groups, layer-wise rates, converters and reports use these names.
"""

import tensorflow as tf
import tf_keras

from common.heads import HEADS
from modeling.encoders.base import Encoder


def encoder_of(model: tf_keras.Model) -> Encoder:
    """The encoder of a task model, or the model itself."""
    return model if isinstance(model, Encoder) else model.encoder


def absent_as_zeros(model: tf_keras.Model) -> list[str]:
    """Canonical names that checkpoints without a language model may lack."""
    encoder = encoder_of(model)
    if HEADS["pretraining"].marker[0] in variable_paths(model):
        return []
    return [encoder.scope + name for name in encoder.may_be_absent]


def variable_paths(model: tf_keras.Model) -> dict[str, str]:
    """Canonical names -> attribute paths from the model down."""
    encoder = encoder_of(model)
    prefix = "" if model is encoder else "encoder/"
    paths = {
        encoder.scope + name: prefix + path
        for name, path in encoder.variable_paths().items()
    }
    if model is not encoder:
        paths |= model.head_variable_paths()
    return paths


def named_variables(model: tf_keras.Model) -> dict[str, tf.Variable]:
    """Every variable of a backbone or task model by its canonical name.

    Raises ValueError: the model has a variable that no name covers.
    """
    variables = {
        name: _follow(model, path)
        for name, path in variable_paths(model).items()
    }
    covered = {id(variable) for variable in variables.values()}
    uncovered = [v.name for v in model.variables if id(v) not in covered]
    if uncovered or len(covered) != len(model.variables):
        raise ValueError(
            f"variables without a canonical name: {uncovered}; "
            f"{len(covered)} names for {len(model.variables)} variables"
        )
    return variables


def _follow(start, path: str):
    """The object at an attribute path; lists and dicts by index and key."""
    for part in path.split("/"):
        if isinstance(start, dict):
            start = start[part]
        elif part.isdecimal():
            start = start[int(part)]
        else:
            start = getattr(start, part)
    return start
