"""Who may see whom: one additive float32 bias, shared by layers and heads.

Letters: B batch, T segment length, M memory length, K = M + T keys,
P predictions. In boolean masks True = blocked. Worked rows, T = 4, M = 0,
factorization order 3 2 4 1 (places from 1), every token a target:

  ranks 3 1 0 2, blocked(i, j) iff rank_i + [i is no target] <= rank_j:

    query stream, 1 = may see     content stream: the diagonal, too
      0 1 1 1                       1 1 1 1
      0 0 1 0                       0 1 1 0
      0 0 0 0                       0 0 1 0
      0 1 1 0                       0 1 1 1
"""

import dataclasses

import tensorflow as tf

# Added to a blocked score: float32 keeps nothing of the score beside it, so a
# row with every key blocked is uniform, as in the original.
MASK_VALUE = -1e30


def rank_mask(ranks: tf.Tensor, is_target: tf.Tensor) -> tf.Tensor:
    """bool [B, T, T] of a factorization order, True where i may not see j.

    Args:
      ranks: int [B, T], place of each position in the order.
      is_target: bool or number [B, T], true where a token is predicted.
    """
    query_ranks = ranks + tf.cast(
        tf.logical_not(tf.cast(is_target, tf.bool)), ranks.dtype
    )
    return query_ranks[:, :, tf.newaxis] <= ranks[:, tf.newaxis, :]  # [B, T, T]


def other_documents(documents: tf.Tensor | None) -> tf.Tensor | None:
    """Rows that hold several texts: bool [B, T, T], True between two of them.

    documents 5 5 7   0 0 1
                      0 0 1
                      1 1 0

    Args:
      documents: int [B, T], number of the text that a token belongs to; None =
        one per row.
    """
    if documents is None:
        return None
    return tf.not_equal(documents[:, :, tf.newaxis], documents[:, tf.newaxis])


def causal_mask(
    query_len: int, memory_len: int, same_length: bool = False
) -> tf.Tensor:
    """bool [T, K]: a key ahead of its query; T = 3, M = 1:

    0 0 1 1     with `same_length`   0 0 1 1
    0 0 0 1     (M + 1 keys each)    1 0 0 1
    0 0 0 0                          1 1 0 0
    """
    i = tf.range(query_len)[:, tf.newaxis]
    j = tf.range(memory_len + query_len)[tf.newaxis, :]
    blocked = j > i + memory_len  # [T, K]
    if same_length:
        blocked |= j < i
    return blocked


@dataclasses.dataclass(frozen=True)
class AttentionMasks:
    """Biases of both streams; None = everything is visible."""

    content: tf.Tensor | None  # float32 [B or 1, T, K]
    query: tf.Tensor | None  # float32 [B or 1, P, K]
    # float32 [B or 1, P], 0 where a row sees no key at all
    query_visible: tf.Tensor | None


def attention_masks(
    query_len: int,
    memory_len: int,
    attn_type: str = "bi",
    same_length: bool = False,
    perm_mask: tf.Tensor | None = None,
    input_mask: tf.Tensor | None = None,
    memory_length: tf.Tensor | None = None,
    target_positions: tf.Tensor | None = None,
    two_streams: bool = False,
) -> AttentionMasks:
    """Combines every reason to hide a key.

    The content stream always sees its own position, padding included; the
    query stream takes the permutation mask as given.

    Args:
      attn_type: "uni" adds the causal mask.
      same_length: see `causal_mask`; "uni" only.
      perm_mask: bool [B, T, T], True = i may not see j.
      input_mask: [B, T], 1 = real token.
      memory_length: int [B], so many slots at the right end of the memory
        are valid; None = all.
      target_positions: int [B, P], the query rows; None = all T.
    """
    pad = None
    if input_mask is not None:
        pad = tf.equal(tf.cast(input_mask, tf.int32), 0)  # [B, T]
        pad = pad[:, tf.newaxis]  # [B, 1, T]
    causal = None
    if attn_type == "uni":
        causal = causal_mask(query_len, memory_len, same_length)
        causal = causal[tf.newaxis]  # [1, T, K]
    stale = _stale(memory_len, memory_length)  # [B, 1, M]
    blocked = any_of(perm_mask, pad)  # [B, T, T], [B, 1, T] or None
    content = blocked
    if content is not None:
        content &= tf.logical_not(tf.eye(query_len, dtype=tf.bool))
    content = _with_memory(content, stale, query_len, memory_len)
    content = any_of(content, causal)  # [B or 1, T, K]
    if not two_streams:
        return AttentionMasks(bias(content), None, None)

    rows = perm_mask
    if target_positions is not None:
        rows = _rows(rows, target_positions)
        causal = _rows(causal, target_positions)
    query = _with_memory(any_of(rows, pad), stale, query_len, memory_len)
    query = any_of(query, causal)
    if query is None:
        return AttentionMasks(bias(content), None, None)
    visible = tf.logical_not(tf.reduce_all(query, -1))  # [B, P]
    return AttentionMasks(
        bias(content), bias(query), tf.cast(visible, tf.float32)
    )


def _stale(memory_len, memory_length):
    """bool [B, 1, M], True left of the valid slots; None = all are valid."""
    if memory_length is None or _is_zero(memory_len):
        return None
    first = memory_len - tf.cast(memory_length, tf.int32)  # [B]
    stale = tf.range(memory_len)[tf.newaxis] < first[:, tf.newaxis]
    return stale[:, tf.newaxis]


def segment_difference(
    segment_ids: tf.Tensor | None,
    memory_len: int,
    target_positions: tf.Tensor | None = None,
    dtype: tf.DType = tf.float32,
) -> tf.Tensor | None:
    """1 where query and key lie in different segments; memory is segment 0.

    [B, T or P, K] of `segment_ids` int [B, T]; None without.
    """
    if segment_ids is None:
        return None
    keys = segment_ids
    if not _is_zero(memory_len):
        keys = tf.pad(keys, [[0, 0], [memory_len, 0]])  # [B, K]
    rows = segment_ids
    if target_positions is not None:
        rows = tf.gather(rows, target_positions, batch_dims=1)  # [B, P]
    differ = tf.not_equal(rows[:, :, tf.newaxis], keys[:, tf.newaxis])
    return tf.cast(differ, dtype)  # [B, T or P, K]


def _is_zero(size) -> bool:
    return isinstance(size, int) and size == 0


def any_of(a: tf.Tensor | None, b: tf.Tensor | None) -> tf.Tensor | None:
    """a or b, of bool masks that broadcast; None = nothing is blocked."""
    if a is None or b is None:
        return b if a is None else a
    return a | b


def _rows(mask: tf.Tensor | None, positions: tf.Tensor) -> tf.Tensor | None:
    """Rows of [B or 1, T, K] at int [B, P]."""
    if mask is None:
        return None
    if mask.shape[0] == 1:
        return tf.gather(mask[0], positions)
    return tf.gather(mask, positions, batch_dims=1)


def _with_memory(mask, stale, query_len, memory_len):
    """Puts the memory's columns left of [B, rows, T]."""
    if _is_zero(memory_len) or (mask is None and stale is None):
        return mask
    if mask is None:
        return tf.pad(stale, [[0, 0], [0, 0], [0, query_len]])
    if stale is None:
        return tf.pad(mask, [[0, 0], [0, 0], [memory_len, 0]])
    batch, rows = tf.shape(mask)[0], tf.shape(mask)[1]
    stale = tf.broadcast_to(stale, [batch, rows, memory_len])
    return tf.concat([stale, mask], -1)  # [B, rows, K]


def bias(blocked: tf.Tensor | None) -> tf.Tensor | None:
    """What is added to float32 scores, of the shape of `blocked`."""
    if blocked is None:
        return None
    return tf.cast(blocked, tf.float32) * MASK_VALUE
