"""One name per variable: the original's, with per-layer pieces.

Optimizer groups, layer-wise rates, converters and reports use these names.
"""

import tensorflow as tf
import tf_keras

from modeling.encoders.xlnet.backbone import XLNetModel

ENCODER_SCOPE = "model/transformer/"


def variable_paths(model: tf_keras.Model) -> dict[str, str]:
    """Canonical names -> attribute paths from the model down."""
    if isinstance(model, XLNetModel):
        encoder, prefix = model, ""
    else:
        encoder, prefix = model.encoder, "encoder/"
    found = {
        ENCODER_SCOPE + name: prefix + path
        for name, path in encoder.variable_paths().items()
    }
    if model is not encoder:
        found |= model.head_variable_paths()
    return found


def named_variables(model: tf_keras.Model) -> dict[str, tf.Variable]:
    """Every variable of a backbone or task model by its canonical name.

    Raises:
      ValueError: the model has a variable that no name covers.
    """
    found = {
        name: _follow(model, path)
        for name, path in variable_paths(model).items()
    }
    covered = {id(variable) for variable in found.values()}
    uncovered = [v.name for v in model.variables if id(v) not in covered]
    if uncovered or len(covered) != len(model.variables):
        raise ValueError(
            f"variables without a canonical name: {uncovered}; "
            f"{len(covered)} names for {len(model.variables)} variables"
        )
    return found


def _follow(start, path: str):
    """The object at an attribute path; lists and dicts by index and key."""
    for part in path.split("/"):
        if isinstance(start, dict):
            start = start[part]
        elif part.isdigit():
            start = start[int(part)]
        else:
            start = getattr(start, part)
    return start
