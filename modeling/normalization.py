"""Layer normalisation in float32 under any policy."""

import tensorflow as tf
import tf_keras

# The original's; tf_keras's default is 1e-3.
EPSILON = 1e-12


@tf_keras.utils.register_keras_serializable("xlnet")
class LayerNorm(tf_keras.layers.Layer):
    """Normalises the last axis; `gamma` and `beta` are float32 [D].

    Args:
      epsilon: added to the variance.
    """

    def __init__(self, epsilon: float = EPSILON, **kwargs):
        super().__init__(**kwargs)
        self.epsilon = epsilon

    def build(self, input_shape):
        size = input_shape[-1]
        self.gamma = self.add_weight(
            "gamma",
            [size],
            tf.float32,
            "ones",
            experimental_autocast=False,
        )
        self.beta = self.add_weight(
            "beta",
            [size],
            tf.float32,
            "zeros",
            experimental_autocast=False,
        )
        super().build(input_shape)

    def call(self, x):
        """[..., D] of any float type -> [..., D] of the compute type."""
        x = tf.cast(x, tf.float32)
        mean = tf.reduce_mean(x, -1, keepdims=True)
        centred = x - mean
        variance = tf.reduce_mean(tf.square(centred), -1, keepdims=True)
        scale = tf.math.rsqrt(variance + self.epsilon)  # [..., 1]
        y = centred * scale * self.gamma + self.beta
        return tf.cast(y, self.compute_dtype)

    def get_config(self):
        return super().get_config() | {"epsilon": self.epsilon}
