"""What a segment leaves for the next one."""

import tensorflow as tf


def update_memory(
    hidden: tf.Tensor,
    memory: tf.Tensor | None,
    mem_len: int | None,
    reuse_len: int | None = None,
) -> tf.Tensor | None:
    """The last `mem_len` of [old memory, first `reuse_len` inputs].

    T = 5, reuse_len = 3, memory m1..m4, mem_len = 6: m2 m3 m4 h1 h2 h3.
    [B, min(mem_len, M + cached), D] without gradient and of the dtype of
    `memory` (of `hidden` without one), or None.

    Args:
      hidden: [B, T, D], input of a layer.
      memory: [B, M, D], or None.
      mem_len: slots to keep; None or 0 = no memory.
      reuse_len: None or 0 = the whole segment.
    """
    if not mem_len:
        return None
    if reuse_len:
        hidden = hidden[:, :reuse_len]
    if memory is not None:
        hidden = tf.concat([memory, tf.cast(hidden, memory.dtype)], 1)
    kept = tf.stop_gradient(hidden[:, -mem_len:])
    if memory is not None and (memory.shape[1] or 0) >= mem_len:
        # Also where T is not known.
        kept = tf.ensure_shape(kept, [None, mem_len, None])
    return kept


def update_length(
    memory_length: tf.Tensor | None,
    batch_size: int | tf.Tensor,
    memory_len: int,
    query_len: int,
    mem_len: int | None,
    reuse_len: int | None = None,
) -> tf.Tensor | None:
    """Valid slots of the new memory, int32 [B], or None where there is none.

    `memory_length`, int32 [B], are those of the old one; None = all.
    """
    if not mem_len:
        return None
    cached = tf.minimum(query_len, reuse_len) if reuse_len else query_len
    if memory_length is None:
        memory_length = tf.fill([batch_size], memory_len)
    return tf.minimum(tf.cast(memory_length, tf.int32) + cached, mem_len)
