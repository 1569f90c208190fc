"""Our layers in Keras' files, and in a SavedModel: as variables, not traces.

Keras finds a class by its name and makes it anew from the arguments of its
constructor: every one is kept as an attribute of that name.

Keras would trace every layer's `call` with and without training and with made
up arguments. Whoever exports a model gives its own signatures, which hold the
graph already; what is left to store of a layer is its variables.
"""

import inspect
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tf_keras

from modeling.ops import initializers

_BASE = ("self", "encoder")  # arguments that are no setting
_TRACED = (
    "train_function",
    "train_tf_function",
    "test_function",
    "predict_function",
)


class VariablesOnly:
    """Mixin before `tf_keras.layers.Layer` or `tf_keras.Model`."""

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        # Not those of this file, and not those of whoever derives from ours.
        if (
            cls.__module__.startswith("modeling.")
            and cls.__module__ != __name__
        ):
            tf_keras.utils.register_keras_serializable("xlnet")(cls)

    def _trackable_children(self, save_type="checkpoint", **kwargs):
        # The children of a checkpoint: sublayers and variables.
        return super()._trackable_children("checkpoint", **kwargs)

    @property
    def _object_identifier(self):
        return "_generic_user_object"

    def add_kept(
        self, name: str, shape: Sequence[int], initializer: dict | str
    ) -> tf.Variable:
        """A variable that stays float32, whatever the compute type."""
        return self.add_weight(
            name,
            shape,
            initializer=initializers.fresh(initializer),
            experimental_autocast=False,
        )


class Layer(VariablesOnly, tf_keras.layers.Layer):
    """Base of the layers of this package."""

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | constructor_arguments(self, Layer)


class Model(VariablesOnly, tf_keras.Model):
    """Base of the models of this package."""

    def _trackable_children(self, save_type="checkpoint", **kwargs):
        children = super()._trackable_children(save_type, **kwargs)
        if save_type == "savedmodel":
            # What `fit` has traced belongs to the process, not to the file.
            for name in _TRACED:
                children.pop(name, None)
        return children


def constructor_arguments(made, base: type) -> dict[str, Any]:
    """Argument -> value, of the constructors of classes below `base`."""
    classes = type(made).__mro__
    names = {
        parameter.name: None
        for cls in classes[: classes.index(base)]
        for parameter in inspect.signature(cls.__init__).parameters.values()
        if parameter.kind
        not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    }
    values = {n: getattr(made, n) for n in names if n not in _BASE}
    if "config" in values:  # of an encoder
        values["config"] = values["config"].to_dict()
    return values


class Dense(VariablesOnly, tf_keras.layers.Dense):
    """`tf_keras.layers.Dense`, for the heads."""


def dense_of(config, units: int, name: str, **more) -> Dense:
    """A float32 layer of a head, not built yet, initialized as the encoder."""
    initializer = initializers.fresh(initializers.from_config(config))
    how = {"kernel_initializer": initializer, "dtype": "float32"}
    return Dense(units, name=name, **how, **more)


def paths_below(owner, scope: str, attribute: str) -> dict[str, str]:
    """The canonical names and attribute paths of a layer of `owner`."""
    layer = owner
    for step in attribute.split("/"):
        layer = layer[int(step)] if step.isdigit() else getattr(layer, step)
    prefix = f"{scope}/" if scope else ""
    return {
        prefix + name: f"{attribute}/{path}"
        for name, path in layer.variable_paths().items()
    }
