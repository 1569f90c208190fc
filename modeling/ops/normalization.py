"""Layer normalisation in float32 under any policy."""

import tensorflow as tf

from modeling.ops import dropout, saving
from modeling.ops import fused as fusion

# The original's; tf_keras's default is 1e-3.
EPSILON = 1e-12


class LayerNorm(saving.Layer):
    """Normalises the last axis; `gamma` and `beta` are float32 [D].

    ModernBERT's have no `beta`; `epsilon` is added to the variance.
    """

    def __init__(
        self, epsilon: float = EPSILON, use_bias: bool = True, **kwargs
    ):
        # Keras would round what comes in float32 before it is read.
        super().__init__(autocast=False, **kwargs)
        self.epsilon = epsilon
        self.use_bias = use_bias
        self.beta = None

    def build(self, input_shape):
        size = input_shape[-1]
        self.gamma = self.add_weight(
            "gamma",
            [size],
            tf.float32,
            "ones",
            experimental_autocast=False,
        )
        if self.use_bias:
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
        return _normalize(
            x,
            self.gamma,
            self.beta,
            epsilon=self.epsilon,
            dtype=self.compute_dtype,
        )

    def after_residual(self, x, residual, bias, context, site, rate):
        """LayerNorm(dropout(x + bias) + residual), in one pass."""
        return _residual(
            x,
            residual,
            bias,
            self.gamma,
            self.beta,
            context.site_seed(site),
            rate=rate,
            epsilon=self.epsilon,
            dtype=self.compute_dtype,
            texts=context.texts,
        )


def _norm(x, gamma, beta, epsilon, dtype):
    x = tf.cast(x, tf.float32)
    mean = tf.reduce_mean(x, -1, keepdims=True)
    centred = x - mean
    variance = tf.reduce_mean(tf.square(centred), -1, keepdims=True)
    scale = tf.math.rsqrt(variance + epsilon)  # [..., 1]
    scaled = centred * scale * gamma
    return tf.cast(scaled if beta is None else scaled + beta, dtype)


_normalize = fusion.fused(_norm)


@fusion.fused
def _residual(
    x, residual, bias, gamma, beta, seed, rate, epsilon, dtype, texts
):
    x = tf.cast(x, tf.float32)
    if bias is not None:
        x += tf.cast(bias, tf.float32)
    x = dropout.masked(x, seed, rate, texts=texts)
    x += tf.cast(residual, tf.float32)
    return _norm(x, gamma, beta, epsilon, dtype)
