"""One layer: attention and feed-forward over one or two streams."""

import dataclasses

import tensorflow as tf
import tf_keras

from modeling.attention.layer import QueryRows, RelativeAttention
from modeling.encoders.xlnet.config import XLNetConfig
from modeling.encoders.xlnet.feed_forward import FeedForward
from modeling.ops import initializers, saving
from modeling.ops.matmul import Products
from modeling.ops.tpu_matmul import TpuProducts


@dataclasses.dataclass(frozen=True)
class Shared:
    """What all layers of one call have in common.

    Attributes:
      content_mask: float32 [B or 1, T, K] or None.
      query_mask: float32 [B or 1, P, K] or None.
      content_segments: [B, T, K], 1 where segments differ, or None.
      query_segments: [B, P, K] or None.
      rows: the query stream's rows, or None without one.
      for_tpu: rows are shifted by tiles. Elsewhere large content streams
        attend in parts (`modeling.attention.chunked`).
      in_order: the layer is differentiated in one of the orders for TPU, and
        its kernels are used by `tpu_products`; compiled functions only.
    """

    content_mask: tf.Tensor | None = None
    query_mask: tf.Tensor | None = None
    content_segments: tf.Tensor | None = None
    query_segments: tf.Tensor | None = None
    rows: QueryRows | None = None
    for_tpu: bool = False
    in_order: bool = False


@tf_keras.utils.register_keras_serializable("xlnet")
class TransformerLayer(saving.Layer):
    """XLNet section 2.3: both streams use the same weights and the same keys.

      h' = FF(attention(h; [memory, h]))    the content stream
      g' = FF(attention(g; [memory, h]))    the query stream

    Args:
      config: `XLNetConfig`, or its `to_dict()`.
    """

    def __init__(self, config: XLNetConfig | dict, **kwargs):
        super().__init__(**kwargs)
        if isinstance(config, dict):
            config = XLNetConfig.from_dict(config)
        self.config = config
        initializer = initializers.from_config(config)
        self.rel_attn = RelativeAttention(
            config.d_model,
            config.n_head,
            config.d_head,
            config.dropout,
            config.dropatt,
            config.untie_r,
            initializer,
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

    def build(self, input_shape):
        with tf.name_scope("rel_attn"):
            self.rel_attn.build(input_shape)
        with tf.name_scope("ff"):
            self.ff.build(input_shape)
        super().build(input_shape)

    def call(
        self,
        h,
        g=None,
        memory=None,
        table=None,
        biases=None,
        shared=None,
        training=False,
        seed=None,
    ):
        """Runs both streams.

        Args:
          h: [B, T, D], content stream.
          g: [B, P, D], query stream, or None.
          memory: [B, M, D] or None.
          table: [S, R, D], position encodings.
          biases: (u, v, s) without `untie_r`.
          shared: `Shared`.
          training: apply dropout.
          seed: int32 [2] of this layer.

        Returns:
          (h', g'), g' None without a query stream.
        """
        shared = shared or Shared()
        products = TpuProducts(h) if shared.in_order else Products()
        context = [h]
        if memory is not None:
            context.insert(0, tf.cast(memory, h.dtype))
        query_len = tf.shape(h)[1] if h.shape[1] is None else h.shape[1]
        keys = self.rel_attn.keys(
            context,
            tf.cast(table, h.dtype),
            query_len,
            training=training,
            for_tpu=shared.for_tpu,
            products=products,
        )

        new_h = self.rel_attn(
            h,
            keys,
            biases=biases,
            mask=shared.content_mask,
            segment_difference=shared.content_segments,
            training=training,
            seed=seed,
            products=products,
        )
        new_h = self.ff(new_h, training=training, seed=seed, products=products)
        if g is None:
            return new_h, None
        g = self.rel_attn(
            g,
            keys,
            biases=biases,
            mask=shared.query_mask,
            segment_difference=shared.query_segments,
            rows=shared.rows,
            training=training,
            seed=seed,
            products=products,
        )
        g = self.ff(
            g,
            training=training,
            seed=seed,
            query_stream=True,
            products=products,
        )
        return new_h, g

    def variable_paths(self) -> dict[str, str]:
        """The original's names below `layer_<i>/` -> attribute paths."""
        found = {}
        for part in ("rel_attn", "ff"):
            for name, path in getattr(self, part).variable_paths().items():
                found[f"{part}/{name}"] = f"{part}/{path}"
        return found

    def get_config(self):
        return super().get_config() | {"config": self.config.to_dict()}
