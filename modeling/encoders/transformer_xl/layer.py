"""One layer of Transformer-XL: relative attention and feed-forward, post-LN."""

import tensorflow as tf
import tf_keras

from modeling.attention.layer import RelativeAttention
from modeling.attention.streams import ALL
from modeling.encoders.transformer_xl.config import TransformerXLConfig
from modeling.ops import initializers, saving
from modeling.ops.context import INFERENCE
from modeling.ops.feed_forward import FeedForward


@tf_keras.utils.register_keras_serializable("xlnet")
class CausalLayer(saving.Layer):
    """Transformer-XL, section 3.3: h' = FF(attention(h; [memory, h])).

    Args:
      config: `TransformerXLConfig`, or its `to_dict()`.
    """

    def __init__(self, config: TransformerXLConfig | dict, **kwargs):
        super().__init__(**kwargs)
        if isinstance(config, dict):
            config = TransformerXLConfig.from_dict(config)
        self.config = config
        initializer = initializers.from_config(config)
        self.rel_attn = RelativeAttention(
            config.d_model,
            config.n_head,
            config.d_head,
            config.dropout,
            config.dropatt,
            initializer,
            untie_r=config.untie_r,
            segments=False,
            name="rel_attn",
            dtype=self.dtype_policy,
        )
        self.ff = FeedForward(
            config.d_model,
            config.d_inner,
            config.ff_activation,
            config.dropout,
            config.inner_dropout,
            initializer,
            name="ff",
            dtype=self.dtype_policy,
        )
        for part in (self.rel_attn, self.ff):
            part.norm.epsilon = config.layer_norm_epsilon

    def build(self, input_shape):
        with tf.name_scope("rel_attn"):
            self.rel_attn.build(input_shape)
        with tf.name_scope("ff"):
            self.ff.build(input_shape)
        super().build(input_shape)

    def call(
        self,
        h,
        memory=None,
        shared=(),
        stream=ALL,
        shift="gather",
        context=INFERENCE,
    ):
        """Runs the layer.

        Args:
          h: [B, T, D].
          memory: [B, M, D] or None.
          shared: the position table [1, K + 1, D], then (u, v) without
            `untie_r`.
          stream: what the rows may see.
          shift: see `modeling.attention.streams.Streams`.
          context: `LayerContext`.

        Returns:
          [B, T, D].
        """
        pieces = [h]
        if memory is not None:
            pieces.insert(0, tf.cast(memory, h.dtype))
        query_len = tf.shape(h)[1] if h.shape[1] is None else h.shape[1]
        keys = self.rel_attn.keys(pieces, query_len, shared, shift, context)
        return self.ff(self.rel_attn(h, keys, stream, context), context)

    def variable_paths(self) -> dict[str, str]:
        """The original's names below `layer_<i>/` -> attribute paths."""
        found = {}
        for part in ("rel_attn", "ff"):
            for name, path in getattr(self, part).variable_paths().items():
                found[f"{part}/{name}"] = f"{part}/{path}"
        return found

    def get_config(self):
        return super().get_config() | {"config": self.config.to_dict()}
