"""Attention of the language models that Transformer-XL is compared with.

Letters: B batch, T segment length, M memory, K = M + T keys, N heads, H head
size, D model, R distances.

  Shaw et al. 2018, as Transformer-XL (section 3.3) describes it; e is learned
  for every distance, head and layer:
    score(i, j) = q_i (k_j + e_(i-j)) / sqrt(H)
  as its PyTorch release has it (`attn_type` 1), with biases u and b of their own:
    score(i, j) = ((q_i + u) k_j + q_i e_(i-j) + b_(i-j)) / sqrt(H)
  where positions come with the input (Vaswani et al. 2017, Al-Rfou et al. 2018):
    score(i, j) = q_i k_j / sqrt(H)
"""

import tensorflow as tf

from modeling.attention.base import Attention
from modeling.attention.chunked import ChunkedKeys, chunks_for
from modeling.attention.plain import PlainKeys
from modeling.attention.relative import Queries, make_queries
from modeling.attention.relative_attention import RelativeAttention
from modeling.ops.context import INFERENCE
from modeling.ops.shapes import sizes


class ShawAttention(RelativeAttention):
    """Learned keys of distances; longer distances have the longest one's.

    `r_emb` is [rows, N, H], its last row that of distance 0.

    Args:
      rows: distances that have a key of their own, 0 to rows - 1.
      clamp_len: c > 0 keeps those of the distances 0 to c - 1 only.
      released: with u (`r_w_bias` [N, H]) and b (`r_bias` [rows, N]).
    """

    projections = "qkvo"

    def __init__(
        self, *sizes, rows: int, clamp_len=-1, released=False, **kwargs
    ):
        kwargs |= {"untie_r": True, "segments": False}
        super().__init__(*sizes, **kwargs)
        self.rows = rows
        self.clamp_len = clamp_len
        self.released = released

    @property
    def bias_names(self) -> tuple[str, ...]:
        """u, where there is one."""
        return ("r_w_bias",) if self.released else ()

    def build_own(self):
        super().build_own()
        self.r_emb = self.add("r_emb", [self.rows, self.n_head, self.d_head])
        if self.released:
            self.r_bias = self.add("r_bias", [self.rows, self.n_head])

    def keys(
        self, pieces, query_len, shared, shift="gather", context=INFERENCE
    ) -> ChunkedKeys:
        """See `Attention.keys`; nothing is shared."""
        k, v = context.matmul.heads(pieces, [self.kernels[n] for n in "kv"])
        _, batch, key_len, _ = sizes(k)
        r = self.distance_keys(tf.range(key_len, -1, -1), k.dtype)
        chunks = chunks_for(
            (self.n_head, batch, query_len, key_len, key_len + 1),
            shift,
            context.training,
        )
        return ChunkedKeys(
            k,
            v,
            r[:, tf.newaxis],
            query_len,
            key_len,
            shift,
            chunks=chunks,
        )

    def distance_keys(self, distances: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
        """int [R] -> [N, R, H], or [N, R, H + 1] with b as the last column."""
        longest = self.rows - 1
        if self.clamp_len > 0:
            longest = min(self.clamp_len - 1, longest)
        index = self.rows - 1 - tf.minimum(distances, longest)
        # A gather from the variable itself would give a sparse gradient.
        rows = tf.convert_to_tensor(self.r_emb)
        if self.released:
            rows = tf.concat([rows, self.r_bias[..., tf.newaxis]], -1)
        rows = tf.cast(tf.gather(rows, index), dtype)
        return tf.transpose(rows, [1, 0, 2])

    def queries(self, q, keys, stream, context=INFERENCE) -> Queries:
        """See `Attention`: no segments; v is zero."""
        none = tf.zeros([self.n_head, self.d_head], q.dtype)
        u = self.r_w_bias if self.released else none
        biased = make_queries(q, (u, none), None)
        position = biased.position  # [N, B, Q, H]
        if self.released:  # b is a key whose query is 1
            one = tf.ones_like(position[..., :1]) * self.d_head**-0.5
            position = tf.concat([position, one], -1)
        return Queries(biased.content, position, None)

    def own_variable_paths(self):
        names = ["r_emb", "r_bias"] if self.released else ["r_emb"]
        return super().own_variable_paths() | {name: name for name in names}


class ContentAttention(Attention):
    """Scores of content alone; positions come with the layer's input."""

    def keys(
        self, pieces, query_len, shared, shift="gather", context=INFERENCE
    ) -> PlainKeys:
        del query_len, shared, shift
        k, v = context.matmul.heads(pieces, [self.kernels[n] for n in "kv"])
        return PlainKeys(k, v)
