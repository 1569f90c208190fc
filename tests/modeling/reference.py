"""The papers' formulas written down plainly: numpy, float64, pair by pair.

Independent of `modeling`: every pair of positions gets its own encoding, both
segment rows are used, the query stream has all of its rows.
"""

import math

import numpy as np


def forward(config, weights, batch):
    """(sequence output [B, T, D], query output or None, new memory).

    Args:
      config: `XLNetConfig`, dropout ignored.
      weights: canonical name -> array.
      batch: arguments of `XLNetModel.call` as numpy arrays, `perm_mask` and
        `target_positions` only.
    """
    w = {k: np.asarray(v, np.float64) for k, v in weights.items()}
    rows = [
        _row(config, w, batch, b) for b in range(batch["input_ids"].shape[0])
    ]
    h, g, memory = zip(*rows, strict=True)
    return (
        np.stack(h),
        None if g[0] is None else np.stack(g),
        [np.stack(layer) for layer in zip(*memory, strict=True)],
    )


def _row(config, w, batch, b):
    def take(name):
        value = batch.get(name)
        return None if value is None else value[b]

    scope = "model/transformer/"
    h = w[scope + "word_embedding/lookup_table"][take("input_ids")]  # [T, D]
    length = len(h)
    where = take("target_positions")
    g = None
    if where is not None:
        g = np.tile(w[scope + "mask_emb/mask_emb"][0], (len(where), 1))
    memory = batch.get("memory")
    past = 0 if memory is None else memory[0].shape[1]
    backward = batch.get("bi_data") and b >= len(batch["input_ids"]) // 2
    blocked = _blocked(config, take, length, past)
    encodings = _encodings(config, length, past, backward)
    segments = take("segment_ids")
    differ = None
    if segments is not None:
        keys = np.concatenate([np.zeros(past, int), segments])
        differ = (segments[:, None] != keys[None]).astype(int)

    kept = []
    for i in range(config.n_layer):
        layer = {
            k.removeprefix(f"{scope}layer_{i}/"): v
            for k, v in w.items()
            if k.startswith(f"{scope}layer_{i}/")
        }
        for bias in ("r_w_bias", "r_r_bias", "r_s_bias"):
            layer.setdefault(f"rel_attn/{bias}", w.get(scope + bias))
        old = memory[i][b] if memory is not None else np.zeros((0, h.shape[1]))
        cached = h[: config.reuse_len] if config.reuse_len else h
        if config.mem_len:
            kept.append(np.concatenate([old, cached])[-config.mem_len :])
        context = np.concatenate([old, h])
        free = blocked & ~np.eye(length, past + length, past, dtype=bool)
        new = _layer(
            config, layer, h, context, encodings, differ, free, range(length)
        )
        if g is not None:
            g = _layer(
                config, layer, g, context, encodings, differ, blocked, where
            )
        h = new
    return h, g, kept


def _blocked(config, take, length, past):
    """bool [T, K]."""
    blocked = np.zeros((length, past + length), bool)
    if take("perm_mask") is not None:
        blocked[:, past:] |= take("perm_mask").astype(bool)
    if take("input_mask") is not None:
        blocked[:, past:] |= take("input_mask")[None] == 0
    if take("memory_length") is not None:
        blocked[:, : past - take("memory_length")] = True
    if config.attn_type == "uni":
        i, j = np.ogrid[:length, : past + length]
        blocked |= j > i + past
        if config.same_length:
            blocked |= j < i
    return blocked


def _encodings(config, length, past, backward):
    """[T, K, D] by distance."""
    i, j = np.ogrid[:length, : past + length]
    distance = (past + i - j).astype(float)
    distance = -distance if backward else distance
    if config.clamp_len > 0:
        distance = np.clip(distance, -config.clamp_len, config.clamp_len)
    d = config.d_model
    angles = distance[..., None] / 10000 ** (np.arange(0, d, 2) / d)
    return np.concatenate([np.sin(angles), np.cos(angles)], -1)


def _layer(config, w, x, context, encodings, differ, blocked, where):
    """One stream; row p of x stands at position where[p]."""
    out = np.zeros_like(x)
    for n in range(config.n_head):
        q, k, v, r, o = (w[f"rel_attn/{name}/kernel"][:, n] for name in "qkvro")
        u, t, s = (w[f"rel_attn/r_{name}_bias"][n] for name in "wrs")
        segment = w["rel_attn/seg_embed"][:, n]  # [2, H]
        for p, i in enumerate(where):
            query = x[p] @ q
            scores = (context @ k) @ (query + u)
            scores = scores + (encodings[i] @ r) @ (query + t)
            if differ is not None:
                scores = scores + segment[differ[i]] @ (query + s)
            scores = scores / math.sqrt(config.d_head)
            seen = ~blocked[i]
            if not seen.any():
                continue
            e = np.exp(scores[seen] - scores[seen].max())
            out[p] += ((e / e.sum()) @ (context[seen] @ v)) @ o.T
    x = _norm(x + out, w, "rel_attn")
    inner = x @ w["ff/layer_1/kernel"] + w["ff/layer_1/bias"]
    if config.ff_activation == "relu":
        inner = np.maximum(inner, 0)
    elif config.ff_activation == "gelu":
        cubic = inner + 0.044715 * inner**3
        inner = inner / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * cubic))
    else:
        inner = inner / 2 * (1 + np.vectorize(math.erf)(inner / math.sqrt(2)))
    inner = inner @ w["ff/layer_2/kernel"] + w["ff/layer_2/bias"]
    return _norm(x + inner, w, "ff")


def _norm(x, w, part):
    x = x - x.mean(-1, keepdims=True)
    x = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-12)
    return x * w[f"{part}/LayerNorm/gamma"] + w[f"{part}/LayerNorm/beta"]
