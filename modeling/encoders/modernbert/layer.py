"""One pre-norm layer: x + attention(norm x), then x + GeGLU(norm x).

x, the residual stream, is float32 under any policy: no norm stands in it, so
that it grows from layer to layer and bfloat16 would round off what a layer adds.
What is computed from it is of the policy's type.
"""

from typing import NamedTuple

import tensorflow as tf

from modeling.attention import local, rotary
from modeling.attention.attend import ALL, Stream
from modeling.attention.plain import PlainKeys
from modeling.encoders.base import ConfiguredLayer
from modeling.encoders.modernbert.config import ModernBertConfig
from modeling.ops import dropout, initializers
from modeling.ops import fused as fusion
from modeling.ops.context import INFERENCE
from modeling.ops.feed_forward import ACTIVATIONS
from modeling.ops.normalization import LayerNorm
from modeling.ops.shapes import sizes


class Surroundings(NamedTuple):
    """What a layer is told about the row, made once for layers of a kind."""

    cos: tf.Tensor  # float32 [B or 1, T, H], of `rotary.table`
    sin: tf.Tensor  # float32 [B or 1, T, H], of `rotary.table`
    # float32 [B or 1, T or 1, T] or None (global), or a `local.LocalMask`
    mask: tf.Tensor | local.LocalMask | None


@fusion.fused
def _gate(both, seed, activation, rate):
    """dropout(act(a) * g) of [a, g], [rows, 2F] -> [rows, F].

    In float32 in between, as `feed_forward`'s.
    """
    first, second = tf.split(tf.cast(both, tf.float32), 2, -1)
    gated = ACTIVATIONS[activation](first) * second
    return tf.cast(dropout.masked(gated, seed, rate), both.dtype)


class ModernBertLayer(ConfiguredLayer):
    """Attention and gated feed-forward, no biases.

    Number 0 has no norm before its attention, for the embeddings have one.
    """

    def __init__(self, config: ModernBertConfig | dict, number: int, **kwargs):
        super().__init__(config, autocast=False, **kwargs)
        self.number = number

        def norm(name):
            return LayerNorm(
                self.config.norm_eps,
                use_bias=False,
                name=name,
                dtype=self.dtype_policy,
            )

        self.attention_norm = norm("attention_norm") if number else None
        self.ff_norm = norm("ff_norm")

    def build(self, input_shape):
        config = self.config
        d, f, n, h = (
            config.d_model,
            config.d_inner,
            config.n_head,
            config.d_head,
        )

        def add(name, shape, scale=1.0):
            initial = initializers.from_config(config, scale)
            return self.add_kept(name, shape, initial)

        out = (2 * config.n_layer) ** -0.5
        self.qkv_kernel = add("qkv_kernel", [d, 3, n, h])
        self.o_kernel = add("o_kernel", [d, n, h], out)
        self.kernel_1 = add("kernel_1", [d, 2 * f])
        self.kernel_2 = add("kernel_2", [f, d], out)
        for layer in (self.attention_norm, self.ff_norm):
            if layer is not None:
                with tf.name_scope(layer.name):
                    layer.build([None, None, d])
        super().build(input_shape)

    def heads(
        self, x, around: Surroundings, context=INFERENCE
    ) -> list[tf.Tensor]:
        """Queries, keys (both turned) and values, [N, B, T, H] each."""
        product = context.matmul.project(x, self.qkv_kernel)
        return rotary.heads(product, around.cos, around.sin)

    def attention_input(self, x):
        """What attention reads: norm(x), but x in the first layer."""
        if self.attention_norm is None:
            return tf.cast(x, self.compute_dtype)
        return self.attention_norm(x)

    def attend(self, x, around: Surroundings, context=INFERENCE):
        """[B, T, D] -> what is added to it, [B, T, D]."""
        q, k, v = self.heads(self.attention_input(x), around, context)
        keys = PlainKeys(k, v, context.training)
        stream = Stream(around.mask)
        if isinstance(around.mask, local.LocalMask):
            keys, stream = local.LocalKeys(k, v, around.mask), ALL
        vector = keys.attend(
            q,
            stream,
            context.site_seed(context.sites.probabilities),
            self.config.dropatt,
        )  # [N, B, T, H]
        vector = tf.transpose(vector, [1, 2, 0, 3])  # [B, T, N, H]
        out = context.matmul.merge(vector, self.o_kernel)  # [B, T, D]
        seed = context.seed if context.training else None
        return dropout.dropout(
            out, self.config.dropatt, seed, context.sites.output
        )

    def feed_forward(self, x, context=INFERENCE):
        """[B, T, D] -> what is added to it, [B, T, D]."""
        normed = self.ff_norm(x)
        flat = tf.reshape(normed, [-1, self.config.d_model])  # [B*T, D]
        both = context.matmul.project(flat, self.kernel_1)  # [B*T, 2F]
        out = context.matmul.project_recomputed(
            _gate,
            [both, context.site_seed(context.sites.inner)],
            self.kernel_2,
            activation=self.config.ff_activation,
            rate=self.config.mlp_dropout,
        )  # [B*T, D]
        return tf.reshape(out, sizes(x))

    def call(self, x, around: Surroundings, context=INFERENCE):
        """x float32 [B, T, D] -> float32 [B, T, D]."""
        x += tf.cast(self.attend(x, around, context), tf.float32)
        return x + tf.cast(self.feed_forward(x, context), tf.float32)

    def variable_paths(self) -> dict[str, str]:
        """Canonical names -> attribute paths."""
        paths = {
            "attention/qkv/kernel": "qkv_kernel",
            "attention/o/kernel": "o_kernel",
            "ff/layer_1/kernel": "kernel_1",
            "ff/layer_2/kernel": "kernel_2",
            "ff/LayerNorm/gamma": "ff_norm/gamma",
        }
        if self.attention_norm is not None:
            paths["attention/LayerNorm/gamma"] = "attention_norm/gamma"
        return paths
