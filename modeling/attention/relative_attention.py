"""Relative multi-head attention, the core of both streams.

Letters: B batch, T segment length, Q query rows (T, or P in the query stream),
K keys, R relative positions, S directions, N heads, H head size.
"""

import dataclasses

import tensorflow as tf

from modeling.attention.base import Attention
from modeling.attention.cached import CachedKeys
from modeling.attention.chunked import ChunkedKeys, chunks_for
from modeling.attention.positions import factors, sinusoids
from modeling.attention.relative import Keys, Queries, Turning, make_queries
from modeling.ops.context import INFERENCE
from modeling.ops.shapes import sizes


class RelativeAttention(Attention):
    """Transformer-XL section 3.3; `modeling.attention.relative` has the scores.

    Args:
      untie_r: the layer owns u, v, s (`r_w_bias`, `r_r_bias`, `r_s_bias`);
        else they come with `shared`, after the position table.
      segments: there are segments to tell apart; else the layer has neither
        s nor `seg_embed`.
      attn_type: "bi", or "uni" where no key lies ahead.
    """

    projections = "qkvor"

    def __init__(
        self,
        *sizes,
        untie_r: bool = True,
        segments: bool = True,
        attn_type: str = "bi",
        **kwargs,
    ):
        super().__init__(*sizes, **kwargs)
        self.untie_r = untie_r
        self.segments = segments
        self.attn_type = attn_type

    @property
    def bias_names(self) -> tuple[str, ...]:
        """Of u, v and, with segments, s."""
        names = ("r_w_bias", "r_r_bias", "r_s_bias")
        return names if self.segments else names[:2]

    def build_own(self):
        shape = [self.n_head, self.d_head]
        if self.untie_r:
            for name in self.bias_names:
                setattr(self, name, self.add(name, shape))
        if self.segments:
            self.seg_embed = self.add("seg_embed", [2, *shape])

    def keys(
        self, pieces, query_len, shared, shift="gather", context=INFERENCE
    ) -> Keys:
        table, *biases = shared
        # A constant: without this it would get a gradient.
        table = tf.stop_gradient(table)
        k, v = context.matmul.heads(pieces, [self.kernels[n] for n in "kv"])
        if self.untie_r:
            biases = [getattr(self, name) for name in self.bias_names]
        _, batch, key_len, _ = sizes(k)
        turning = None
        if shift == "factored":  # the kernel meets the queries
            r, turning = self._factored(table, query_len, key_len, k.dtype)
            count = sinusoids.num_positions(query_len, key_len, self.attn_type)
        else:
            (r,) = context.matmul.heads(
                [tf.cast(table, k.dtype)], [self.kernels["r"]]
            )  # [N, S, R, H]
            count = sizes(table)[1]
        chunks = chunks_for(
            (self.n_head, batch, query_len, key_len, count),
            shift,
            context.training,
        )
        return ChunkedKeys(
            k, v, r, query_len, key_len, shift, tuple(biases), turning, chunks
        )

    def _factored(self, mixing, query_len, key_len, dtype):
        """The factors of the keys and how queries are turned.

        Args:
          mixing: [S, W, D], `factors.by_direction`.

        Raises:
          ValueError: the mixing is of other lengths.
        """
        _, count, d_model = sizes(mixing)
        waves = factors.fewest_waves(
            query_len, key_len, d_model, self.attn_type
        )
        if count != len(waves.mixing):
            raise ValueError(
                f"the mixing of positions must have {len(waves.mixing)} waves "
                f"for {query_len} queries and {key_len} keys, received {count}"
            )
        kernel = tf.convert_to_tensor(self.kernels["r"])
        kernel = tf.einsum("sfd,dnh->sfnh", mixing, kernel)
        r = tf.cast(factors.key_factors(key_len, waves), dtype)  # [K, W]
        return r, Turning(kernel, waves)

    def growing_keys(self, keys: Keys, x, cache, slot, context) -> CachedKeys:
        """`keys` of a prompt and of the tokens after it.

        Args:
          keys: of the prompt [1, P, D]; its table holds the distances C..0.
          x: [B, 1, D], the content of the token at P + `slot`.
          cache: [2, N, B, G, H], keys and values of the tokens before.
        """
        new = context.matmul.heads([x], [self.kernels[n] for n in "kv"])
        return CachedKeys(keys, cache, slot).write(tf.stack(new))

    def queries(self, q, keys, stream, context=INFERENCE) -> Queries:
        """See `Attention`: with u, v and s, the last for unlike segments.

        (q + v) (R W)^T = ((q + v) W^T) R^T: where positions are factored the
        kernel W of the positions is applied here.
        """
        seg_embed = self.seg_embed if stream.segments is not None else None
        queries = make_queries(q, keys.biases, seg_embed)
        if keys.method != "factored":
            return queries
        places = stream.positions
        if places is None:
            places = tf.range(keys.query_len)[tf.newaxis]  # [1, T]
        turning = keys.turning
        rows = factors.turned(
            *context.matmul.by_head(queries.position, turning.kernel),
            places + (keys.key_len - keys.query_len),
            turning.waves,
        )
        return dataclasses.replace(queries, position=rows)  # [N, B, Q, W]

    def own_variable_paths(self):
        names = [*self.bias_names] if self.untie_r else []
        names += ["seg_embed"] if self.segments else []
        return {name: name for name in names}
