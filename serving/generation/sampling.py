"""Picking the next token: temperature, top-k, top-p; stateless seeds."""

import tensorflow as tf

# How tokens are picked: every scalar input of a graph, and a request.
PICKING = {
    name: tf.TensorSpec([], dtype, name)
    for name, dtype in (
        ("max_new_tokens", tf.int32),
        ("temperature", tf.float32),
        ("top_k", tf.int32),
        ("seed", tf.int32),
    )
}
# Logits divided by less would not be finite.
LEAST_TEMPERATURE = 1e-6
PICKED = {"max_new_tokens": 3, "temperature": 0.0, "top_k": 0, "seed": 0}


def filter_logits(
    logits: tf.Tensor, temperature: float, top_k: int, top_p: float
) -> tf.Tensor:
    """float32 [B, V], scaled, -inf at all but the allowed tokens.

    Args:
      temperature: > 0 divides the logits.
      top_k: keep so many; 0 = all. Ties with the k-th are kept.
      top_p: keep the most probable ones whose sum reaches this; 1 = all. The
        first one is always kept.
    """
    logits = logits / max(temperature, LEAST_TEMPERATURE)
    vocab_size = logits.shape[-1]
    if 0 < top_k < vocab_size:
        lowest = tf.math.top_k(logits, top_k).values[:, -1:]
        logits = tf.where(logits < lowest, -float("inf"), logits)
    if top_p < 1.0:
        ordered = tf.sort(logits, direction="DESCENDING")  # [B, V]
        probabilities = tf.nn.softmax(ordered)
        before = tf.cumsum(probabilities, -1, exclusive=True)
        kept = tf.cast(before < top_p, tf.int32)  # the first is always kept
        last = tf.maximum(tf.reduce_sum(kept, -1, keepdims=True) - 1, 0)
        lowest = tf.gather(ordered, last, batch_dims=1)
        logits = tf.where(logits < lowest, -float("inf"), logits)
    return logits


def pick(
    logits: tf.Tensor,
    temperature: float,
    top_k: int,
    top_p: float,
    seed: tf.Tensor,
) -> tf.Tensor:
    """int32 [B] of logits [B, V]; the most probable with temperature 0.

    Equal seeds, int32 [2], give equal tokens.
    """
    if temperature == 0.0:
        return tf.argmax(logits, -1, output_type=tf.int32)
    return draw(filter_logits(logits, temperature, top_k, top_p), seed)


def choose(logits: tf.Tensor, temperature, top_k, seed: list) -> tf.Tensor:
    """int32 [B] of logits [B, V], with settings that a graph's caller gives.

    Scalars: float32 temperature, 0 = the most probable token; int32 top_k, 0 =
    all; two of int32 as seed.
    """
    size = logits.shape[-1]
    count = tf.where((top_k > 0) & (top_k < size), top_k, size)
    lowest = tf.math.top_k(logits, count).values[:, -1:]
    allowed = tf.where(logits < lowest, -float("inf"), logits)
    least = tf.maximum(temperature, LEAST_TEMPERATURE)
    drawn = draw(allowed / least, tf.stack(seed))
    best = tf.argmax(logits, -1, output_type=tf.int32)
    return tf.where(temperature > 0.0, drawn, best)


def by_text(generate, rows: tf.RaggedTensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Tokens and log-probabilities, [B, G], of one text after the other.

    `generate`: ids [n] of a text -> (int32 [G], float32 [G]).
    """
    return tf.map_fn(
        generate,
        rows,
        fn_output_signature=(
            tf.TensorSpec([None], tf.int32),
            tf.TensorSpec([None], tf.float32),
        ),
    )


def draw(logits: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """int32 [B], a token of each row of float32 [B, V]."""
    token = tf.random.stateless_categorical(logits, 1, seed, dtype=tf.int32)
    return token[:, 0]
