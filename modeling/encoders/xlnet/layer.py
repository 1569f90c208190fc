"""One layer: attention and feed-forward over one or two streams."""

from modeling.attention.attend import NO_QUERIES
from modeling.attention.base import Attention
from modeling.attention.relative_attention import RelativeAttention
from modeling.encoders.base import Sublayers, with_memory
from modeling.encoders.xlnet.config import XLNetConfig
from modeling.ops import initializers
from modeling.ops.context import INFERENCE
from modeling.ops.feed_forward import FeedForward


def _relative(config: XLNetConfig, **kwargs) -> Attention:
    return RelativeAttention(
        config.d_model,
        config.n_head,
        config.d_head,
        config.dropout,
        config.dropatt,
        initializers.from_config(config),
        untie_r=config.untie_r,
        attn_type=config.attn_type,
        **kwargs,
    )


# Kinds of attention: a new one is its file, a row here and its test.
ATTENTION = {"relative": _relative}


class TransformerLayer(Sublayers):
    """XLNet section 2.3: both streams use the same weights and the same keys.

      h' = FF(attention(h; [memory, h]))    the content stream
      g' = FF(attention(g; [memory, h]))    the query stream

    Args:
      attention: a key of `ATTENTION`.
    """

    parts = ("rel_attn", "ff")

    def __init__(
        self,
        config: XLNetConfig | dict,
        attention: str = "relative",
        **kwargs,
    ):
        super().__init__(config, **kwargs)
        config = self.config
        self.attention = attention
        # The original's name, whatever the kind.
        self.rel_attn = ATTENTION[attention](
            config, name="rel_attn", dtype=self.dtype_policy
        )
        self.ff = FeedForward(
            config.d_model,
            config.d_inner,
            config.ff_activation,
            config.dropout,
            config.inner_dropout,
            initializers.from_config(config),
            name="ff",
            dtype=self.dtype_policy,
        )

    def call(
        self,
        h,
        g=None,
        memory=None,
        shared=(),
        streams=NO_QUERIES,
        context=INFERENCE,
    ):
        """(h', g') of h [B, T, D] and g [B, P, D]; None without a query stream.

        `memory` [B, M, D] or None; `shared`: the position table [S, R, D], then
        (u, v, s) without `untie_r`.
        """
        keys = self.rel_attn.keys(
            *with_memory(h, memory), shared, streams.shift, context
        )
        new_h = self.rel_attn(h, keys, streams.content, context)  # [B, T, D]
        new_h = self.ff(new_h, context)
        if g is None:
            return new_h, None
        context = context.for_query_stream()
        g = self.rel_attn(g, keys, streams.query, context)  # [B, P, D]
        return new_h, self.ff(g, context)
