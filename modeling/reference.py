"""The whole model as the papers write it, in plain TensorFlow.

Nothing here is fast: every pair of positions has its own encoding, every row
of the query stream its own product. The models of `modeling.encoders` give the
same numbers, and the tests compare each of their fast paths with this file.

  Transformer-XL (arXiv 1901.02860): section 3.2 memory, 3.3 attention
  XLNet (arXiv 1906.08237): section 2.2 orders, 2.3 two streams, 2.5 segments

Letters: B rows, T segment, M memory, K = M + T keys, P targets, R queries
(T of the content stream, P of the query stream), N heads, H width of a head,
D model, F feed-forward, V vocabulary. Weights are a dictionary from the
variables' names to tensors of one floating dtype, which is that of the results.
"""

import math
from typing import NamedTuple

import tensorflow as tf

XLNET, TRANSFORMER_XL = "model/transformer/", "transformer/"


class Reference(NamedTuple):
    """What a segment gives."""

    content: tf.Tensor  # h, [B, T, D]
    query: tf.Tensor | None  # g, [B, P, D]; None without targets
    memory: list[tf.Tensor]  # L tensors [B, M', D], what the next segment sees


def order_mask(ranks: tf.Tensor, is_target: tf.Tensor) -> tf.Tensor:
    """A factorization order as a mask (XLNet 2.2): bool [B, T, T], True = hidden.

    Args:
      ranks: int [B, T], z^-1: the place of each position in the order; context
        shares the lowest.
      is_target: [B, T], 1 = predicted.

    i sees j iff j comes before i in the order, or both are context.
    """
    own = ranks + 1 - tf.cast(is_target, ranks.dtype)
    return own[:, :, tf.newaxis] <= ranks[:, tf.newaxis, :]


def xlnet(
    config,
    weights: dict[str, tf.Tensor],
    input_ids: tf.Tensor,
    segment_ids: tf.Tensor | None = None,
    input_mask: tf.Tensor | None = None,
    perm_mask: tf.Tensor | None = None,
    ranks: tf.Tensor | None = None,
    is_target: tf.Tensor | None = None,
    target_positions: tf.Tensor | None = None,
    memory: list[tf.Tensor] | None = None,
    memory_length: tf.Tensor | None = None,
    bi_data: bool = False,
) -> Reference:
    """Both streams of XLNet, without dropout.

    Args:
      config: `XLNetConfig`.
      input_ids: int [B, T].
      segment_ids: int [B, T]; None = one segment.
      input_mask: [B, T], 1 = real token.
      perm_mask: [B, T, T], 1 = hidden.
      ranks, is_target: instead of it, see `order_mask`.
      target_positions: int [B, P], where the query stream stands.
      memory: L tensors [B, M, D] of the segment before.
      memory_length: int [B]: the last so many of its slots are real.
      bi_data: the second half of the rows is read backward.
    """
    b, t = input_ids.shape
    m = memory[0].shape[1] if memory else 0
    # h_0 = e(x), g_0 = w (2.3).
    h = tf.gather(weights[XLNET + "word_embedding/lookup_table"], input_ids)
    g = None
    if target_positions is not None:
        w = weights[XLNET + "mask_emb/mask_emb"]  # [1, 1, D]
        g = tf.tile(w, [*target_positions.shape, 1])
    if ranks is not None:
        perm_mask = order_mask(ranks, is_target)
    hidden = _hidden(config, t, m, memory_length, input_mask, perm_mask)
    hidden = tf.broadcast_to(hidden, [b, t, m + t])
    backward = b // 2 if bi_data else 0
    signs = [1.0] * (b - backward) + [-1.0] * backward
    differ = None
    if segment_ids is not None:
        # Memory counts as segment 0; s_ij knows only whether they differ (2.5).
        keys = tf.pad(segment_ids, [[0, 0], [m, 0]])
        differ = segment_ids[:, :, tf.newaxis] != keys[:, tf.newaxis]
    rows = (_encodings(config, t, m, h.dtype, signs), differ, hidden)
    return _layers(config, weights, XLNET, h, rows, memory, g, target_positions)


def transformer_xl(
    config,
    weights: dict[str, tf.Tensor],
    input_ids: tf.Tensor,
    memory: list[tf.Tensor] | None = None,
    memory_length: tf.Tensor | None = None,
) -> tuple[Reference, tf.Tensor]:
    """The language model: its encoder and tied softmax, without dropout.

    Args:
      config: `TransformerXLConfig` with encoding "relative", E = D and one
        softmax.

    Returns:
      The encoder's output, and logits [B, T, V] of each token's successor.
    """
    t = input_ids.shape[1]
    m = memory[0].shape[1] if memory else 0
    table = weights[TRANSFORMER_XL + "adaptive_embed/lookup_table"]  # [V, D]
    h = tf.gather(table, input_ids) * math.sqrt(config.d_model)
    hidden = _hidden(config, t, m, memory_length)
    rows = (_encodings(config, t, m, h.dtype, [1.0]), None, hidden)
    result = _layers(config, weights, TRANSFORMER_XL, h, rows, memory)
    bias = weights[TRANSFORMER_XL + "adaptive_softmax/bias"]
    return result, tf.einsum("btd,vd->btv", result.content, table) + bias


def _hidden(config, t, m, memory_length, input_mask=None, perm_mask=None):
    """bool [B or 1, T, K]: query i may not see key j."""
    i, j = tf.range(t)[:, tf.newaxis], tf.range(m + t)[tf.newaxis]
    hidden = tf.zeros([1, t, m + t], tf.bool)
    before = [[0, 0], [0, 0], [m, 0]]
    if perm_mask is not None:
        hidden |= tf.pad(tf.cast(perm_mask, tf.bool), before)
    if input_mask is not None:
        padding = tf.equal(input_mask, 0)[:, tf.newaxis]  # [B, 1, T]
        hidden |= tf.pad(padding, before)
    if memory_length is not None:
        empty = tf.cast(memory_length, tf.int32)[:, tf.newaxis, tf.newaxis]
        hidden |= j[tf.newaxis] < m - empty
    if config.attn_type == "uni":
        hidden |= j > i + m
        if config.same_length:
            hidden |= j < i
    return hidden


def _encodings(config, t: int, m: int, dtype, signs: list[float]) -> tf.Tensor:
    """R_(i-j), sinusoids of the distance (Transformer-XL 3.3): [S, T, K, D].

    `signs` are of S rows: -1 reads backward.
    """
    i, j = tf.range(t)[:, tf.newaxis], tf.range(m + t)[tf.newaxis]
    signs = tf.constant(signs, dtype, [len(signs), 1, 1])
    distance = signs * tf.cast(m + i - j, dtype)
    if config.clamp_len > 0:
        c = tf.cast(config.clamp_len, dtype)
        distance = tf.clip_by_value(distance, -c, c)
    d = config.d_model
    rates = 10000 ** (-tf.range(0, d, 2, dtype) / d)
    angles = distance[..., tf.newaxis] * rates
    return tf.concat([tf.sin(angles), tf.cos(angles)], -1)


def _layers(
    config, weights, scope: str, h, rows: tuple, memory, g=None, targets=None
) -> Reference:
    """Both streams through all layers.

    Args:
      config, weights, memory, targets: see `xlnet`.
      h, g: [B, T, D], and [B, P, D] or None.
      rows: R, whether segments differ, what is hidden; [B or 1, T, K, ...].
    """
    r, differ, hidden = rows
    t, k = hidden.shape[1:]
    # A content row sees itself, whatever the order says.
    itself = tf.pad(tf.eye(t, dtype=tf.bool), [[0, 0], [k - t, 0]])  # [T, K]
    kept = []
    for layer in range(config.n_layer):

        def take(name: str, own=f"{scope}layer_{layer}/") -> tf.Tensor:
            if own + name in weights:
                return weights[own + name]
            # Biases that all layers share.
            return weights[scope + name.removeprefix("rel_attn/")]

        old = memory[layer] if memory else h[:, :0]
        # m' = SG([m ; h]) (Transformer-XL 3.2): the last M of a layer's inputs.
        taken = h[:, : config.reuse_len] if config.reuse_len else h
        last = tf.concat([old, taken], 1)[:, -(config.mem_len or 0) :]
        kept.append(tf.stop_gradient(last))
        context = tf.concat([old, h], 1)  # [B, K, D]
        h = _layer(config, take, h, context, r, differ, hidden & ~itself)
        if g is not None:
            at = (
                None if x is None else tf.gather(x, targets, batch_dims=1)
                for x in rows
            )  # [B, P, K, ...]
            g = _layer(config, take, g, context, *at)
    return Reference(h, g, kept if config.mem_len else [])


def _layer(config, take, x, context, r, differ, hidden) -> tf.Tensor:
    """x [B, R, D] -> [B, R, D]; r [B or 1, R, K, D], the rest [B, R, K]."""

    def norm(x: tf.Tensor, part: str) -> tf.Tensor:
        mean, variance = tf.nn.moments(x, [-1], keepdims=True)
        epsilon = getattr(config, "layer_norm_epsilon", 1e-12)
        x = (x - mean) / tf.sqrt(variance + epsilon)
        return x * take(f"{part}/LayerNorm/gamma") + take(
            f"{part}/LayerNorm/beta"
        )

    attended = _attend(config, take, x, context, r, differ, hidden)
    x = norm(x + attended, "rel_attn")
    inner = x @ take("ff/layer_1/kernel") + take("ff/layer_1/bias")
    inner = _ACTIVATIONS[config.ff_activation](inner)
    inner = inner @ take("ff/layer_2/kernel") + take("ff/layer_2/bias")
    return norm(x + inner, "ff")


def _attend(config, take, x, context, r, differ, hidden) -> tf.Tensor:
    """Equation (3.3), and the segments' term of XLNet 2.5.

    score = ((q + u) k_j + (q + t) W_r R_(i-j) + (q + s) s_ij) / sqrt(H)
    """
    wq, wk, wv, wr, wo = (
        take(f"rel_attn/{name}/kernel") for name in "qkvro"
    )  # [D, N, H] each
    q = tf.einsum("brd,dnh->brnh", x, wq)
    k = tf.einsum("bkd,dnh->bknh", context, wk)
    v = tf.einsum("bkd,dnh->bknh", context, wv)
    u, t = (take(f"rel_attn/r_{name}_bias") for name in "wr")  # [N, H]
    score = tf.einsum("brnh,bknh->bnrk", q + u, k)
    kr = tf.einsum("brkd,dnh->brnkh", r, wr)
    by_distance = tf.reduce_sum((q + t)[..., tf.newaxis, :] * kr, -1)
    score += tf.einsum("brnk->bnrk", by_distance)
    if differ is not None:
        s = take("rel_attn/r_s_bias")
        both = take("rel_attn/seg_embed")  # [2, N, H]: same, other
        by_segment = tf.einsum("brnh,snh->bnrs", q + s, both)
        same, other = (by_segment[..., i, tf.newaxis] for i in (0, 1))
        score += tf.where(differ[:, tf.newaxis], other, same)
    seen = ~hidden[:, tf.newaxis]  # [B, 1, R, K]
    score = tf.where(seen, score / math.sqrt(config.d_head), score.dtype.min)
    # A row that sees no key gets nothing.
    p = tf.where(seen, tf.nn.softmax(score), 0)
    return tf.einsum("bnrk,bknh,dnh->brd", p, v, wo)


_ACTIVATIONS = {
    "relu": tf.nn.relu,
    "gelu": lambda x: tf.nn.gelu(x, approximate=True),
    "gelu_erf": lambda x: tf.nn.gelu(x, approximate=False),
}
