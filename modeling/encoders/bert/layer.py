"""One post-LN layer: self-attention, then feed-forward."""

import tensorflow as tf

from modeling.attention.attend import Stream
from modeling.attention.plain import PlainKeys
from modeling.encoders.base import ConfiguredLayer, Sublayers
from modeling.encoders.bert.config import BertConfig
from modeling.ops import initializers
from modeling.ops.context import INFERENCE
from modeling.ops.feed_forward import FeedForward
from modeling.ops.normalization import LayerNorm
from modeling.ops.shapes import sizes


class BertAttention(ConfiguredLayer):
    """LayerNorm(x + dropout(O attention(x) + b))."""

    def __init__(self, config: BertConfig | dict, **kwargs):
        super().__init__(config, **kwargs)
        self.norm = LayerNorm(
            self.config.layer_norm_eps,
            name="LayerNorm",
            dtype=self.dtype_policy,
        )

    def build(self, input_shape):
        config = self.config
        initial = initializers.from_config(config)
        shape = [config.d_model, config.n_head, config.d_head]
        self.kernels = {
            name: self.add_kept(f"{name}_kernel", shape, initial)
            for name in "qkvo"
        }
        self.biases = {
            name: self.add_kept(f"{name}_bias", shape[1:], "zeros")
            for name in "qkv"
        }
        self.biases["o"] = self.add_kept("o_bias", [config.d_model], "zeros")
        with tf.name_scope("LayerNorm"):
            self.norm.build([None, None, config.d_model])
        super().build(input_shape)

    def heads(self, x, context=INFERENCE) -> list[tf.Tensor]:
        """Queries, keys and values of x [B, T, D], [N, B, T, H] each."""
        kernels = [self.kernels[name] for name in "qkv"]
        product = context.matmul.joined([x], kernels)  # [B, T, 3*N*H]
        bias = tf.concat(
            [tf.reshape(self.biases[name], [-1]) for name in "qkv"], 0
        )
        product += tf.cast(bias, x.dtype)  # while its gradient sums columns
        shape = [*sizes(x)[:2], 3, *kernels[0].shape[1:]]
        product = tf.reshape(product, shape)  # [B, T, 3, N, H]
        return tf.unstack(tf.transpose(product, [2, 3, 0, 1, 4]))

    def attended(self, x, mask, context) -> tf.Tensor:
        """O attention(x) without b, [B, T, D]; arguments as `call`'s."""
        q, k, v = self.heads(x, context)
        vector = PlainKeys(k, v, context.training).attend(
            q,
            Stream(mask),
            context.site_seed(context.sites.probabilities),
            self.config.dropatt,
        )  # [N, B, T, H]
        vector = tf.transpose(vector, [1, 2, 0, 3])  # [B, T, N, H]
        return context.matmul.merge(vector, self.kernels["o"])

    def call(self, x, mask=None, context=INFERENCE):
        """x [B, T, D], mask float32 [B or 1, T or 1, T] or None -> [B, T, D]."""
        return self.norm.after_residual(
            self.attended(x, mask, context),
            x,
            tf.cast(self.biases["o"], x.dtype),
            context,
            context.sites.output,
            self.config.dropout,
        )

    def variable_paths(self) -> dict[str, str]:
        """Canonical names -> attribute paths."""
        paths = {f"{name}/kernel": f"kernels/{name}" for name in "qkvo"}
        paths |= {f"{name}/bias": f"biases/{name}" for name in "qkvo"}
        paths["LayerNorm/gamma"] = "norm/gamma"
        paths["LayerNorm/beta"] = "norm/beta"
        return paths


class BertLayer(Sublayers):
    """Attention and feed-forward; may be applied more than once (ALBERT)."""

    parts = ("attention", "ff")

    def __init__(self, config: BertConfig | dict, **kwargs):
        super().__init__(config, **kwargs)
        config = self.config
        self.attention = BertAttention(
            config, name="attention", dtype=self.dtype_policy
        )
        self.ff = FeedForward(
            config.d_model,
            config.d_inner,
            config.ff_activation,
            config.dropout,
            0.0,
            initializers.from_config(config),
            config.layer_norm_eps,
            name="ff",
            dtype=self.dtype_policy,
        )

    def call(self, x, mask=None, context=INFERENCE):
        """x [B, T, D], mask as in `BertAttention` -> [B, T, D]."""
        return self.ff(self.attention(x, mask, context), context)
