"""The many ways to call the backbone, checked and brought to one form."""

import dataclasses

import tensorflow as tf

from modeling import masks


@dataclasses.dataclass(frozen=True)
class Inputs:
    """A call in one form.

    Attributes:
      batch_size: B.
      query_len: T.
      memory_len: M, 0 without memory.
      perm_mask: bool [B, T, T] or None.
      target_positions: int32 [B, P] or None.
      used_rows: float32 [B, P], 0 for a zero row of a target mapping, or None.
      query_input: [B, T] or None; None with target positions.
      memory: tuple of L tensors [B, M, D] or None.
      memory_length: int32 [B] or None.
    """

    batch_size: int | tf.Tensor
    query_len: int | tf.Tensor
    memory_len: int | tf.Tensor
    perm_mask: tf.Tensor | None
    target_positions: tf.Tensor | None
    used_rows: tf.Tensor | None
    query_input: tf.Tensor | None
    memory: tuple[tf.Tensor, ...] | None
    memory_length: tf.Tensor | None


def check(
    n_layer: int,
    *,
    input_ids,
    perm_mask=None,
    ranks=None,
    is_target=None,
    target_positions=None,
    target_mapping=None,
    query_input=None,
    memory=None,
    memory_length=None,
    bi_data=False,
) -> Inputs:
    """Checks the arguments of a backbone call, see `XLNetModel.call`.

    Raises:
      ValueError: two arguments say the same thing, or one is missing.
    """
    if perm_mask is not None and ranks is not None:
        raise ValueError("give `perm_mask` or `ranks`, not both")
    if target_positions is not None and target_mapping is not None:
        raise ValueError(
            "give `target_positions` or `target_mapping`, not both"
        )
    batch, length = size_of(input_ids, 0), size_of(input_ids, 1)
    if bi_data and isinstance(batch, int) and batch % 2:
        raise ValueError(
            "`bi_data` needs an even batch (half forward, half backward), "
            f"received {batch} rows"
        )

    used_rows = None
    if target_mapping is not None:
        mapping = tf.cast(target_mapping, tf.float32)  # [B, P, T]
        target_positions = tf.argmax(mapping, -1, tf.int32)  # [B, P]
        used_rows = tf.reduce_sum(mapping, -1)
        if is_target is None:
            is_target = tf.reduce_sum(mapping, 1)  # [B, T]
    elif is_target is None:
        is_target = query_input
    if target_positions is not None:
        target_positions = tf.cast(target_positions, tf.int32)
        query_input = None

    if ranks is not None:
        if is_target is None:
            raise ValueError(
                "`ranks` need `is_target` [B, T]: only a target is hidden "
                "from itself"
            )
        perm_mask = masks.rank_mask(tf.convert_to_tensor(ranks), is_target)
    elif perm_mask is not None:
        perm_mask = tf.cast(perm_mask, tf.bool)

    memory_len = 0
    if memory is not None:
        memory = tuple(tf.convert_to_tensor(m) for m in memory)
        if len(memory) != n_layer:
            raise ValueError(
                f"`memory` must hold {n_layer} tensors, one per layer, "
                f"received {len(memory)}"
            )
        memory_len = size_of(memory[0], 1)
    elif memory_length is not None:
        memory_length = None
    return Inputs(
        batch,
        length,
        memory_len,
        perm_mask,
        target_positions,
        used_rows,
        query_input,
        memory,
        memory_length,
    )


def size_of(x, axis: int):
    """Static size where known, dynamic elsewhere."""
    x = tf.convert_to_tensor(x)
    size = x.shape[axis]
    return tf.shape(x)[axis] if size is None else size
