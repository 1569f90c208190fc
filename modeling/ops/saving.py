"""How our layers appear in a SavedModel: as variables, not as Keras traces.

Keras would trace every layer's `call` with and without training and with made
up arguments. Whoever exports a model gives its own signatures, which hold the
graph already; what is left to store of a layer is its variables.
"""

from collections.abc import Sequence

import tensorflow as tf
import tf_keras

from modeling.ops import initializers

_TRACED = (
    "train_function",
    "train_tf_function",
    "test_function",
    "predict_function",
)


class VariablesOnly:
    """Mixin before `tf_keras.layers.Layer` or `tf_keras.Model`."""

    def _trackable_children(self, save_type="checkpoint", **kwargs):
        # The children of a checkpoint: sublayers and variables.
        return super()._trackable_children("checkpoint", **kwargs)

    @property
    def _object_identifier(self):
        return "_generic_user_object"

    def add_kept(
        self, name: str, shape: Sequence[int], initializer: dict | str
    ) -> tf.Variable:
        """A variable that stays float32, whatever the compute type.

        Args:
          name: of the variable.
          shape: of it.
          initializer: serialised, or its name.
        """
        return self.add_weight(
            name,
            shape,
            initializer=initializers.fresh(initializer),
            experimental_autocast=False,
        )


class Layer(VariablesOnly, tf_keras.layers.Layer):
    """Base of the layers of this package."""


class Model(VariablesOnly, tf_keras.Model):
    """Base of the models of this package."""

    def _trackable_children(self, save_type="checkpoint", **kwargs):
        children = super()._trackable_children(save_type, **kwargs)
        if save_type == "savedmodel":
            # What `fit` has traced belongs to the process, not to the file.
            for name in _TRACED:
                children.pop(name, None)
        return children


class Dense(VariablesOnly, tf_keras.layers.Dense):
    """`tf_keras.layers.Dense`, for the heads."""


def dense_of(config, units: int, name: str, **more) -> Dense:
    """A float32 layer of a head, not built yet.

    Args:
      config: of the encoder; its first weights are of its kind.
      units: width of the output.
      name: of the layer.
      **more: other arguments of `Dense`.
    """
    initializer = initializers.fresh(initializers.from_config(config))
    how = {"kernel_initializer": initializer, "dtype": "float32"}
    return Dense(units, name=name, **how, **more)


def paths_below(owner, scope: str, attribute: str) -> dict[str, str]:
    """The canonical names and attribute paths of a layer of `owner`.

    Args:
      owner: has the layer.
      scope: of the layer's names; "" = theirs as they are.
      attribute: path of the layer, "blocks/3".
    """
    layer = owner
    for step in attribute.split("/"):
        layer = layer[int(step)] if step.isdigit() else getattr(layer, step)
    prefix = f"{scope}/" if scope else ""
    return {
        prefix + name: f"{attribute}/{path}"
        for name, path in layer.variable_paths().items()
    }
