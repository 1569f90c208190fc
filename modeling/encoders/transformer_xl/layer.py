"""One layer of Transformer-XL: attention and feed-forward, post-LN."""

import tensorflow as tf

from common.errors import UserError
from modeling.attention.attend import ALL
from modeling.attention.encodings import ContentAttention, ShawAttention
from modeling.attention.relative_attention import RelativeAttention
from modeling.encoders.base import Sublayers, with_memory
from modeling.encoders.transformer_xl.config import TransformerXLConfig
from modeling.ops import initializers
from modeling.ops.context import INFERENCE
from modeling.ops.feed_forward import FeedForward
from modeling.ops.shapes import sizes


class CausalLayer(Sublayers):
    """Transformer-XL, section 3.3: h' = FF(attention(h; [memory, h]))."""

    parts = ("rel_attn", "ff")

    def __init__(self, config: TransformerXLConfig | dict, **kwargs):
        super().__init__(config, **kwargs)
        config = self.config
        initializer = initializers.from_config(config)
        kind, options = _attention(config)
        self.rel_attn = kind(
            config.d_model,
            config.n_head,
            config.d_head,
            config.dropout,
            config.dropatt,
            initializer,
            name="rel_attn",
            dtype=self.dtype_policy,
            **options,
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
        super().build(input_shape)
        self.r_emb = None
        if self.config.encoding == "per_layer":
            self.r_emb = self.add_kept(
                "r_emb",
                [self.config.max_positions, self.config.d_model],
                initializers.from_config(self.config),
            )

    def with_positions(self, h: tf.Tensor) -> tf.Tensor:
        """The layer's input [B, T, D], learned places added where it has any.

        Raises UserError: the segment is longer than the places; where its length
        is not known before, tf.errors.InvalidArgumentError when it runs.
        """
        if self.r_emb is None:
            return h
        length, rows = sizes(h)[1], self.config.max_positions
        if isinstance(length, int):
            if length > rows:
                raise UserError(
                    f"a segment of {length} tokens is longer than the {rows} "
                    "places that the model learned (`max_positions`); take a "
                    "shorter one"
                )
        else:  # a slice from before the table would be added everywhere
            check = tf.debugging.assert_less_equal(
                length, rows, "a segment is longer than `max_positions`"
            )
            with tf.control_dependencies([check]):
                length = tf.identity(length)
        table = tf.convert_to_tensor(self.r_emb)[rows - length :]
        return h + tf.cast(table, h.dtype)

    def call(
        self,
        h,
        memory=None,
        shared=(),
        stream=ALL,
        shift="gather",
        context=INFERENCE,
    ):
        """[B, T, D] of h [B, T, D] and memory [B, M, D] or None.

        `shared`: the position table [1, K + 1, D], then (u, v) without
        `untie_r`; () for other encodings than "relative".
        """
        keys = self.rel_attn.keys(
            *with_memory(h, memory), shared, shift, context
        )
        return self.ff(self.rel_attn(h, keys, stream, context), context)

    def variable_paths(self) -> dict[str, str]:
        own = {} if self.r_emb is None else {"r_emb": "r_emb"}
        return super().variable_paths() | own


def _attention(config: TransformerXLConfig) -> tuple[type, dict]:
    """The class of a configuration's attention and its own arguments."""
    if config.bound_to_segment:
        return ContentAttention, {}
    if config.encoding == "relative":
        return RelativeAttention, {
            "untie_r": config.untie_r,
            "segments": False,
            "attn_type": "uni",
        }
    return ShawAttention, {
        "rows": config.max_positions,
        "clamp_len": config.clamp_len,
        "released": config.encoding == "shaw_released",
    }
