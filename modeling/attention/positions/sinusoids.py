"""The sinusoid table of relative positions.

Letters: T queries, M memory, K = M + T keys, R relative positions, S
directions, D model.
Column c of the table is the distance K - c, so query i and key j (distance
M + i - j) meet in column c = j + T - i. Transformer-XL, appendix B.
"""

import tensorflow as tf


def num_positions(query_len: int, key_len: int, attn_type: str) -> int:
    """R: K + T for "bi", K + 1 for "uni" (no key lies ahead)."""
    return key_len + (query_len if attn_type == "bi" else 1)


def sinusoid_table(
    query_len: int,
    key_len: int,
    d_model: int,
    attn_type: str = "bi",
    clamp_len: int = -1,
    bi_data: bool = False,
) -> tf.Tensor:
    """Encodings of the distances K, K-1, ..., float32 under any policy.

    T = 2, K = 3 gives the distances 3 2 1 0 -1 for "bi" and 3 2 1 0 for "uni".
    [S, R, D], S = 2 with `bi_data` else 1: D/2 sines, then D/2 cosines.

    Args:
      d_model: D, even.
      attn_type: "bi" or "uni".
      clamp_len: distances are clipped to +- this when > 0.
      bi_data: add a second table with the sign of the distance flipped, for
        the backward half of the batch.
    """
    count = num_positions(query_len, key_len, attn_type)
    distances = tf.cast(key_len - tf.range(count), tf.float32)  # [R]
    if bi_data:
        distances = tf.stack([distances, -distances])  # [2, R]
    else:
        distances = distances[tf.newaxis]  # [1, R]
    if clamp_len > 0:
        distances = tf.clip_by_value(distances, -clamp_len, clamp_len)
    angles = angles_of(distances, d_model)  # [S, R, D/2]
    return tf.concat([tf.sin(angles), tf.cos(angles)], -1)  # [S, R, D]


def angles_of(places: tf.Tensor, d_model: int) -> tf.Tensor:
    """Of each number, by the D/2 frequencies: float32 [..., D/2]."""
    exponents = tf.range(0, d_model, 2, dtype=tf.float32) / d_model
    frequencies = 1.0 / tf.pow(10000.0, exponents)  # [D/2]
    return tf.cast(places, tf.float32)[..., tf.newaxis] * frequencies
