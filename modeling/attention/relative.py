"""Attention with relative scores as one differentiable step.

Letters: B batch, T segment length, Q query rows (T, or P in the query stream),
K keys, R relative positions, S directions, N heads, H head size.

  scores = ((q+u) k + shift((q+v) r) + (q+s) e_seg) / sqrt(H)

Matmuls are TensorFlow's; everything between them is fused
(`modeling.ops.fused`). The backward pass is written out, because automatic
differentiation would keep six tensors [N, B, Q, K] per layer and stream: here
only the probabilities are kept. The dropped probabilities are recomputed from
the seed, and the sum in the softmax's gradient is taken over H, not K:

  sum_j dP_ij P_ij = sum_h dO_ih O_ih

`modeling.attention.chunked` does the same in chunks, `modeling.attention.cached`
for a text that grows.
"""

import dataclasses

import tensorflow as tf

from modeling.attention.attend import ALL, Stream
from modeling.attention.positions import factors, shifts
from modeling.ops import dropout
from modeling.ops import fused as fusion
from modeling.ops.shapes import sizes


@dataclasses.dataclass(frozen=True)
class Turning:
    """What makes rows of `factors.turned`."""

    kernel: tf.Tensor  # [S, W, N, H], that of the positions by wave
    waves: factors.Waves


@dataclasses.dataclass(frozen=True)
class Keys:
    """What both streams attend to."""

    k: tf.Tensor  # [N, B, K, H]
    v: tf.Tensor  # [N, B, K, H]
    # [N, S, R, H], projected position table; "factored": [K, W], a constant
    r: tf.Tensor
    query_len: int  # T
    key_len: int  # K
    method: str = "gather"  # how position scores are aligned, see `Streams`
    # (u, v, s), each [N, H]; (u, v) without segments
    biases: tuple[tf.Tensor, ...] = ()
    turning: Turning | None = None  # "factored"

    def shift(self, scores: tf.Tensor, rows: tf.Tensor | None) -> tf.Tensor:
        """[N, B, Q, R] by table column -> [N, B, Q, K] by key.

        `rows` int32 [B, P]: which ones; None = all.
        """
        if rows is None:
            return shifts.shift_all(scores, self.key_len, self.method)
        return shifts.shift_at(
            scores, rows, self.query_len, self.key_len, self.method
        )

    def attend(self, queries, stream, seed=None, rate=0.0):
        """See `attend`; keys that lie elsewhere have another way."""
        return attend(queries, self, stream, seed, rate)


@dataclasses.dataclass(frozen=True)
class Queries:
    """Queries with their biases, scaled by 1 / sqrt(H)."""

    content: tf.Tensor  # [N, B, Q, H], q + u
    # [N, B, Q, H], q + v; "factored": [N, B, Q, W], `factors.turned`
    position: tf.Tensor
    # [N, B, Q, 1], what is added where segments differ, or None
    segment: tf.Tensor | None


def make_queries(
    q: tf.Tensor,
    biases: tuple[tf.Tensor, ...],
    seg_embed: tf.Tensor | None,
) -> Queries:
    """Adds the biases while the heads are still the last axes.

    There their gradients are sums of columns, which are fast. Of the two rows
    of `seg_embed` (same, different) only the difference matters, because
    softmax ignores what all keys share: (q+s)(e_different - e_same) is added
    where the segments differ.

    Args:
      q: [B, Q, N, H].
      biases: (u, v, s), each [N, H]; s is for the segment term.
      seg_embed: [2, N, H], or None for no segment term.
    """
    scale = q.shape[-1] ** -0.5
    u, v, *rest = (tf.cast(bias, q.dtype) for bias in biases)

    def with_bias(bias):  # [N, B, Q, H]
        biased = _biased(q, bias, scale=scale)
        return tf.transpose(biased, [2, 0, 1, 3])

    segment = None
    if seg_embed is not None:
        e = tf.cast(seg_embed[1] - seg_embed[0], q.dtype)  # [N, H]
        segment = _segment_term(q, rest[0], e, scale=scale)  # [B, Q, N]
        segment = tf.transpose(segment, [2, 0, 1])[..., tf.newaxis]
    return Queries(with_bias(u), with_bias(v), segment)


def attend(
    queries: Queries,
    keys: Keys,
    stream: Stream = ALL,
    seed: tf.Tensor | None = None,
    rate: float = 0.0,
) -> tf.Tensor:
    """dropout(softmax(scores + mask)) v.

    The plain form; queries are biased and scaled, `differ` is
    `stream.segments`:

      scores = einsum("nbqh,nbkh->nbqk", content, k)
      scores += shift(einsum("nbqh,nbrh->nbqr", position, r))
      scores += segment * differ
      p = softmax(scores + mask)
      vector = einsum("nbqk,nbkh->nbqh", dropout(p), v)

    Arguments and result are those of `AttendedKeys.attend`.
    """

    @tf.custom_gradient
    def run(content_q, position_q, k, v, r, *segment):
        own = Queries(content_q, position_q, segment[0] if segment else None)
        scores, position_gradients = masked_scores(
            own, dataclasses.replace(keys, k=k, r=r), stream
        )  # [N, B, Q, K]
        if keys.method != "gather":
            p, sums = undivided_probabilities(scores, v.dtype)
        else:
            p, sums = probabilities(scores, v.dtype), None  # [N, B, Q, K]
        dropped = drop_probabilities(p, seed, rate=rate)
        out = _divided(tf.matmul(dropped, v), sums)  # [N, B, Q, H]

        def gradient(d_out):
            d_scores, d_v = value_gradients(p, v, out, d_out, seed, rate, sums)
            d_content = tf.matmul(d_scores, k)  # [N, B, Q, H]
            d_position, d_r = position_gradients(d_scores)
            d_k = tf.matmul(d_scores, content_q, transpose_a=True)
            gradients = [d_content, d_position, d_k, d_v, d_r]
            if segment:
                gradients.append(_row_sums(d_scores, stream.segments))
            return gradients

        return out, gradient

    segment = () if queries.segment is None else (queries.segment,)
    return run(
        queries.content, queries.position, keys.k, keys.v, keys.r, *segment
    )


def value_gradients(p, v, out, d_out, seed, rate, sums=None):
    """Gradients of the scores [N, B, Q, K] and of v [N, B, K, H].

    Of the probabilities `p` before dropout, v, the attention vectors `out`
    [N, B, Q, H] and their gradient `d_out`; `p` is yet to divide by `sums`.
    """
    d_dropped = tf.matmul(d_out, v, transpose_b=True)  # [N, B, Q, K]
    again = not_before(d_out, seed)
    dropped = drop_probabilities(p, again, rate=rate)  # [N, B, Q, K]
    d_v = tf.matmul(dropped, _divided(d_out, sums), transpose_a=True)
    d_scores = softmax_gradient(p, d_dropped, out, d_out, seed, sums, rate=rate)
    return d_scores, d_v


def masked_scores(queries: Queries, keys: Keys, stream: Stream):
    """float32 [N, B, Q, K], and the gradients of `position` and r of theirs."""
    content = tf.matmul(queries.content, keys.k, transpose_b=True)
    key_len = None
    if keys.method == "factored":
        position, gradients = _factored_scores(queries.position, keys.r)
    else:
        position, key_len, gradients = _shifted_scores(queries, keys, stream)
    scores = combine(
        content,
        position,
        queries.segment,
        stream.segments,
        stream.mask,
        key_len=key_len,
    )
    # Fused kernels tell no shape; the rank is for the cost estimates.
    return tf.ensure_shape(scores, [None] * 4), gradients


def _shifted_scores(queries, keys, stream):
    """Position scores by the table, how they lie, and their gradients.

    [N, B, Q, K] by key and None, or [N, B, T, R] by table column and K.
    """
    position = position_scores(queries.position, keys.r)  # [N, B, Q, R]
    rows, key_len, count = stream.positions, keys.key_len, sizes(keys.r)[2]
    if rows is not None or keys.method == "radix":
        key_len = None
        position, undo = _with_undo(lambda x: keys.shift(x, rows), position)
    else:
        # The shift of all rows is part of the fused sum of scores.
        def undo(d_scores):
            return _unshift(d_scores, count)

    def gradients(d_scores):
        return _position_gradients(undo(d_scores), queries.position, keys.r)

    return position, key_len, gradients


def _factored_scores(q, factors):
    """[N, B, Q, K] of turned rows [N, B, Q, W] and factors [K, W].

    And their gradients. The factors have none: they are constants.
    """

    def gradients(d_scores):
        return tf.einsum("nbqk,kf->nbqf", d_scores, factors), None

    return tf.einsum("nbqf,kf->nbqk", q, factors), gradients


def probabilities(scores: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """float32 scores [N, B, Q, K] -> of the compute type, 1 in sum over K."""
    return tf.cast(tf.nn.softmax(scores), dtype)


def undivided_probabilities(scores: tf.Tensor, dtype: tf.DType):
    """exp(scores - largest) of the compute type, its float32 sums [N, B, Q, 1].

    The probabilities are their quotient. For TPU, where one pass makes both:
    the quotient would be another pass over all scores. The rows of the
    attention vectors are divided instead, H numbers each instead of K.
    """
    scores -= tf.reduce_max(scores, -1, keepdims=True)
    weights = tf.exp(scores)
    return tf.cast(weights, dtype), tf.reduce_sum(weights, -1, keepdims=True)


def _divided(x, sums):
    """x [N, B, Q, H] over the sums of its rows, or x where there are none."""
    if sums is None:
        return x
    return tf.cast(tf.cast(x, tf.float32) / sums, x.dtype)


def position_scores(q: tf.Tensor, r: tf.Tensor) -> tf.Tensor:
    """q [N, B, Q, H] and r [N, S, R, H] -> [N, B, Q, R] by table column.

    All rows of a direction are one matmul per head.
    """
    n, directions, count, h = sizes(r)
    _, batch, length, _ = sizes(q)
    q = tf.reshape(q, [n, directions, -1, h])  # [N, S, B/S*Q, H]
    scores = tf.matmul(q, r, transpose_b=True)  # [N, S, B/S*Q, R]
    return tf.reshape(scores, [n, batch, length, count])


def _position_gradients(d_scores, q, r):
    """Gradients of `position_scores` for q and r."""
    n, directions, count, h = sizes(r)
    d_scores = tf.reshape(d_scores, [n, directions, -1, count])
    d_q = tf.reshape(tf.matmul(d_scores, r), tf.shape(q))  # [N, B, Q, H]
    q = tf.reshape(q, [n, directions, -1, h])  # [N, S, B/S*Q, H]
    return d_q, tf.matmul(d_scores, q, transpose_a=True)


def not_before(upstream, seed):
    """The seed, once the backward pass is here.

    What needs nothing but results of the forward pass would be computed in the
    forward pass, and kept.
    """
    if seed is None:
        return None
    with tf.control_dependencies([upstream]):
        return tf.identity(seed)


def _with_undo(function, x):
    """function(x) and its vector-Jacobian product."""
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = function(x)
    return y, lambda dy: tape.gradient(y, x, dy)


@fusion.fused
def _biased(q, bias, scale):
    wide = tf.cast(q, tf.float32) + tf.cast(bias, tf.float32)
    return tf.cast(wide * scale, q.dtype)


@fusion.fused
def _segment_term(q, bias, e, scale):
    wide = tf.cast(q, tf.float32) + tf.cast(bias, tf.float32)
    term = tf.reduce_sum(wide * tf.cast(e, tf.float32), -1) * scale
    return tf.cast(term, q.dtype)


@fusion.compiled
def combine(content, position, segment, difference, mask, key_len):
    """float32 scores [N, B, Q, K] + mask.

    `content` [N, B, Q, K], `position` the same, or with `key_len` [N, B, T, R]
    yet to shift; the others as in `Queries` and `Stream`.
    """
    if key_len is not None:
        position = shifts.shift_all(position, key_len)
    scores = tf.cast(content, tf.float32) + tf.cast(position, tf.float32)
    if segment is not None:
        scores += tf.cast(segment * difference, tf.float32)
    return scores if mask is None else scores + mask


def drop_probabilities(p, seed, rate):
    """Dropout of the probabilities [N, B, Q, K], as one kernel."""
    # A kernel that drops nothing would copy them.
    if seed is None or rate == 0.0:
        return p
    return _drop(p, seed, rate=rate)


@fusion.compiled
def _drop(p, seed, rate):
    return dropout.masked(p, seed, rate)


@fusion.compiled
def softmax_gradient(p, d_dropped, out, d_out, seed, sums=None, *, rate):
    """The gradient of the scores [N, B, Q, K], dropout of `p` included.

    The sum over a row that it needs is that of `out` * `d_out` [N, B, Q, H].
    With `sums` the probabilities are `p` over these.
    """
    inner = tf.cast(out, tf.float32) * tf.cast(d_out, tf.float32)
    inner = tf.reduce_sum(inner, -1, keepdims=True)  # [N, B, Q, 1]
    d_p = dropout.masked(tf.cast(d_dropped, tf.float32), seed, rate)
    p_wide = tf.cast(p, tf.float32)
    if sums is not None:
        p_wide /= sums
    return tf.cast(p_wide * (d_p - inner), p.dtype)


def _unshift(d_scores, count):
    """The gradient of `shifts.shift_all`: [N, B, T, K] -> [N, B, T, R].

    Two copies; not compiled, since XLA's padding on CPU goes one by one.
    """
    n, batch, length, key_len = sizes(d_scores)
    lead = [[0, 0], [0, 0]]
    x = tf.pad(d_scores, [*lead, [0, 0], [0, count - 1 - key_len]])
    x = tf.reshape(x, [n, batch, length * (count - 1)])
    x = tf.pad(x, [*lead, [length, 0]])
    return tf.reshape(x, [n, batch, length, count])


@fusion.compiled
def _row_sums(d_scores, difference):
    product = tf.cast(d_scores, tf.float32) * tf.cast(difference, tf.float32)
    return tf.cast(tf.reduce_sum(product, -1, keepdims=True), d_scores.dtype)
