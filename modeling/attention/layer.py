"""Relative multi-head attention, the core of both streams.

Letters: B batch, T segment length, Q query rows (T, or P in the query stream),
K keys, R relative positions, S directions, N heads, H head size, D model.

Heads are the outermost axis inside, [N, B, ...]: masks [B, Q, K] then
broadcast over whole blocks, and the position scores of a direction are one
matrix product per head over all of its rows.
"""

import tensorflow as tf
import tf_keras

from modeling.attention.chunked import attend, head_groups, row_blocks
from modeling.attention.relative import (
    Keys,
    Parts,
    QueryRows,
    make_queries,
    relative_scores,
)
from modeling.ops import dropout, initializers, saving
from modeling.ops.matmul import Products
from modeling.ops.normalization import LayerNorm
from modeling.ops.shapes import sizes

__all__ = ["Keys", "QueryRows", "RelativeAttention", "relative_scores"]


@tf_keras.utils.register_keras_serializable("xlnet")
class RelativeAttention(saving.Layer):
    """LayerNorm(x + dropout(O attention(x))), Transformer-XL section 3.3.

    See `relative_scores` for the scores.

    Args:
      d_model: D.
      n_head: N.
      d_head: H.
      dropout_rate: on the output projection.
      dropatt: on the attention probabilities.
      untie_r: the layer owns u, v, s (`r_w_bias`, `r_r_bias`, `r_s_bias`);
        else they come with each call.
      initializer: of every variable but LayerNorm's, serialised.
    """

    def __init__(
        self,
        d_model: int,
        n_head: int,
        d_head: int,
        dropout_rate: float = 0.0,
        dropatt: float = 0.0,
        untie_r: bool = True,
        initializer: dict | str = "glorot_uniform",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.d_model = d_model
        self.n_head = n_head
        self.d_head = d_head
        self.dropout_rate = dropout_rate
        self.dropatt = dropatt
        self.untie_r = untie_r
        self.initializer = initializer
        self.norm = LayerNorm(name="LayerNorm", dtype=self.dtype_policy)

    def build(self, input_shape):
        def add(name, shape):
            return self.add_weight(
                name,
                shape,
                initializer=initializers.fresh(self.initializer),
                experimental_autocast=False,
            )

        n, h = self.n_head, self.d_head
        shape = [self.d_model, n, h]
        self.kernels = {name: add(f"{name}_kernel", shape) for name in "qkvor"}
        if self.untie_r:
            self.r_w_bias = add("r_w_bias", [n, h])
            self.r_r_bias = add("r_r_bias", [n, h])
            self.r_s_bias = add("r_s_bias", [n, h])
        self.seg_embed = add("seg_embed", [2, n, h])
        with tf.name_scope("LayerNorm"):
            self.norm.build([None, None, self.d_model])
        super().build(input_shape)

    def keys(
        self,
        context,
        table,
        query_len,
        training=False,
        for_tpu=False,
        products=None,
    ) -> Keys:
        """Projects what the streams attend to.

        Args:
          context: [B, M, D] of the memory, if any, and [B, T, D].
          table: [S, R, D], positions.
          query_len: T.
          training: gradients will be asked for.
          for_tpu: rows are shifted by tiles.
          products: how to multiply; None = `Products()`.
        """
        products = products or Products()
        k, v = products.heads(context, [self.kernels[n] for n in "kv"])
        (r,) = products.heads([table], [self.kernels["r"]])  # [N, S, R, H]
        _, batch, key_len, _ = sizes(k)
        count = sizes(table)[1]
        groups = blocks = 1
        if for_tpu or not training:
            # In training the blocks' gradients would have to be summed.
            blocks = row_blocks(query_len, key_len, count, for_tpu)
        else:
            groups = head_groups(self.n_head, batch, query_len, count)
        method = "radix" if for_tpu else "gather"
        parts = Parts(groups, blocks)
        return Keys(k, v, r, query_len, key_len, parts, method)

    def call(
        self,
        x,
        keys,
        biases=None,
        mask=None,
        segment_difference=None,
        rows=None,
        training=False,
        seed=None,
        products=None,
    ):
        """Attends from x to the keys.

        Args:
          x: [B, Q, D], rows of one stream.
          keys: `Keys` of this layer.
          biases: (u, v, s), each [N, H]; only without `untie_r`.
          mask: float32 [B or 1, Q, K] added to the scores, or None.
          segment_difference: [B, Q, K], 1 where segments differ, or None.
          rows: `QueryRows` for the query stream, None for the content stream.
          training: apply dropout.
          seed: int32 [2].
          products: how to multiply; None = `Products()`.

        Returns:
          [B, Q, D].
        """
        products = products or Products()
        sites = (dropout.CONTENT_PROBABILITIES, dropout.CONTENT_OUTPUT)
        if rows is not None:
            sites = (dropout.QUERY_PROBABILITIES, dropout.QUERY_OUTPUT)
        seed = seed if training else None
        if self.untie_r:
            biases = (self.r_w_bias, self.r_r_bias, self.r_s_bias)
        queries = make_queries(
            products.project(x, self.kernels["q"]),
            biases,
            self.seg_embed if segment_difference is not None else None,
        )
        vector = attend(
            queries,
            keys,
            segment_difference,
            mask,
            rows,
            dropout.site_seed(seed, sites[0]),
            self.dropatt,
        )  # [N, B, Q, H]
        if rows is not None and rows.gate is not None:
            vector *= tf.cast(rows.gate, x.dtype)[..., tf.newaxis]
        vector = tf.transpose(vector, [1, 2, 0, 3])  # [B, Q, N, H]
        out = products.merge(vector, self.kernels["o"])
        return self.norm.after_residual(
            out, x, None, dropout.site_seed(seed, sites[1]), self.dropout_rate
        )

    def variable_paths(self) -> dict[str, str]:
        """The original's names (biases and segments per layer) -> paths."""
        found = {f"{name}/kernel": f"kernels/{name}" for name in self.kernels}
        own = ["r_w_bias", "r_r_bias", "r_s_bias"] if self.untie_r else []
        found |= {name: name for name in [*own, "seg_embed"]}
        found["LayerNorm/gamma"] = "norm/gamma"
        found["LayerNorm/beta"] = "norm/beta"
        return found

    def get_config(self):
        return super().get_config() | {
            "d_model": self.d_model,
            "n_head": self.n_head,
            "d_head": self.d_head,
            "dropout_rate": self.dropout_rate,
            "dropatt": self.dropatt,
            "untie_r": self.untie_r,
            "initializer": self.initializer,
        }
