"""A model that computes in bfloat16 and keeps its matrices in it.

Training keeps float32 weights that every step rounds (`mixed_bfloat16`). A
model that only answers needs no more than what it multiplies with: here tables
and kernels are stored rounded, which halves them, and vectors (biases, scales
of norms) stay in float32.
"""

import contextlib
from collections.abc import Callable, Iterator

import tensorflow as tf
import tf_keras
from tf_keras.src.mixed_precision import autocast_variable

from modeling.checkpoints.names import named_variables

POLICY = "mixed_bfloat16"


def in_bfloat16(build: Callable, model) -> tf_keras.Model:
    """The same weights in a model of half the size.

    What `build`, which gives a model like `model` (float32) with fresh weights,
    gives under the policy `mixed_bfloat16`: variables of two and more
    dimensions in bfloat16, the others in float32.
    """
    with _policy(POLICY), tf.variable_creator_scope(_stored_in_half):
        half = build()
    weights = named_variables(model)
    for name, variable in named_variables(half).items():
        # `true_dtype`: of what is stored, whatever a layer reads it as.
        stored = getattr(variable, "true_dtype", variable.dtype)
        variable.assign(tf.cast(tf.convert_to_tensor(weights[name]), stored))
    return half


@contextlib.contextmanager
def to_export(
    build: Callable, fill: Callable, precision: str
) -> Iterator[tf_keras.Model]:
    """A model to export, whatever precision a training computes in.

    Args:
      build: gives the model with fresh weights.
      fill: takes it and gives it its weights.
      precision: "float32", or `POLICY` for `in_bfloat16`.
    """
    with _policy("float32"):
        model = build()
        fill(model)
        yield model if precision == "float32" else in_bfloat16(build, model)


@contextlib.contextmanager
def _policy(name: str) -> Iterator[None]:
    """Layers that are made within have this policy."""
    before = tf_keras.mixed_precision.global_policy()
    tf_keras.mixed_precision.set_global_policy(name)
    try:
        yield
    finally:
        tf_keras.mixed_precision.set_global_policy(before)


def _stored_in_half(create, **arguments):
    """A variable creator; see `tf.variable_creator_scope`.

    Layers that compute in float32 read the variable as float32: what Keras
    does for a policy's variables, from the other side.
    """
    shape = tf.TensorShape(arguments.get("shape"))
    wide = shape.rank is not None and shape.rank > 1
    if not wide or arguments.get("dtype") != tf.float32:
        return create(**arguments)
    # What it begins with is overwritten.
    arguments["initial_value"] = lambda: tf.zeros(shape, tf.bfloat16)
    arguments["dtype"] = tf.bfloat16
    return autocast_variable.create_autocast_variable(create(**arguments))
