"""The position-wise feed-forward sublayer, post-LN."""

import tensorflow as tf

from modeling.ops import dropout, saving
from modeling.ops import fused as fusion
from modeling.ops.context import INFERENCE
from modeling.ops.normalization import EPSILON, LayerNorm


def gelu(x: tf.Tensor) -> tf.Tensor:
    """The tanh form: 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))."""
    inner = 0.7978845608028654 * (x + 0.044715 * (x * x * x))
    return 0.5 * x * (1.0 + tf.tanh(inner))


def gelu_erf(x: tf.Tensor) -> tf.Tensor:
    """The exact form: 0.5 x (1 + erf(x / sqrt(2))).

    TensorFlow's takes `erfc(-x / sqrt(2))`, which needs an exponential.
    """
    return 0.5 * x * (1.0 + tf.math.erf(x * 0.7071067811865476))


ACTIVATIONS = {
    "gelu": gelu,
    "gelu_erf": gelu_erf,
    "relu": tf.nn.relu,
}


@fusion.fused
def _activate(x, bias, seed, activation, rate, texts):
    """dropout(act(x + bias)), [rows, F].

    In float32 in between: an activation is a dozen operations, and rounding
    each to bfloat16 costs accuracy and, on CPU, ten times its arithmetic.
    """
    wide = tf.cast(x, tf.float32) + tf.cast(bias, tf.float32)
    wide = ACTIVATIONS[activation](wide)
    wide = dropout.masked(wide, seed, rate, texts=texts)
    return tf.cast(wide, x.dtype)


class FeedForward(saving.Layer):
    """LayerNorm(x + dropout(W2 dropout(act(W1 x)))).

    Args:
      d_model: D.
      d_inner: F.
      activation: "gelu", "gelu_erf" or "relu".
      dropout_rate: on the result of W2.
      inner_dropout: after the activation.
      initializer: of both kernels, serialised.
      epsilon: of LayerNorm.

    Call: x [B, T, D] -> [B, T, D].
    """

    def __init__(
        self,
        d_model: int,
        d_inner: int,
        activation: str = "gelu",
        dropout_rate: float = 0.0,
        inner_dropout: float = 0.0,
        initializer: dict | str = "glorot_uniform",
        epsilon: float = EPSILON,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.d_model = d_model
        self.d_inner = d_inner
        self.activation = activation
        self.dropout_rate = dropout_rate
        self.inner_dropout = inner_dropout
        self.initializer = initializer
        self.epsilon = epsilon
        self.norm = LayerNorm(
            epsilon, name="LayerNorm", dtype=self.dtype_policy
        )

    def build(self, input_shape):
        d, f = self.d_model, self.d_inner
        add = self.add_kept
        self.kernel_1 = add("kernel_1", [d, f], self.initializer)
        self.bias_1 = add("bias_1", [f], "zeros")
        self.kernel_2 = add("kernel_2", [f, d], self.initializer)
        self.bias_2 = add("bias_2", [d], "zeros")
        with tf.name_scope("LayerNorm"):
            self.norm.build([None, None, d])
        super().build(input_shape)

    def call(self, x, context=INFERENCE):
        """x [B, T, D] -> [B, T, D]; `context`: a `LayerContext`."""
        matmul, dtype = context.matmul, x.dtype
        batch, length = tf.shape(x)[0], tf.shape(x)[1]
        flat = tf.reshape(x, [-1, self.d_model])  # [B*T, D]
        inner = matmul.project(flat, self.kernel_1)  # [B*T, F]
        seed = context.site_seed(context.sites.inner)
        out = matmul.project_recomputed(
            _activate,
            [inner, tf.cast(self.bias_1, dtype), seed],
            self.kernel_2,
            activation=self.activation,
            rate=self.inner_dropout,
            texts=context.texts,
        )  # [B*T, D]
        out = self.norm.after_residual(
            out,
            flat,
            tf.cast(self.bias_2, dtype),
            context,
            context.sites.feed_forward,
            self.dropout_rate,
        )  # [B*T, D]
        out = tf.reshape(out, [batch, length, self.d_model])
        out.set_shape(x.shape)
        return out

    def variable_paths(self) -> dict[str, str]:
        """The original's variable names -> attribute paths."""
        return {
            "layer_1/kernel": "kernel_1",
            "layer_1/bias": "bias_1",
            "layer_2/kernel": "kernel_2",
            "layer_2/bias": "bias_2",
            "LayerNorm/gamma": "norm/gamma",
            "LayerNorm/beta": "norm/beta",
        }
