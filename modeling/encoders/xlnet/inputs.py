"""The many ways to call the backbone, checked and brought to one form."""

import dataclasses

import tensorflow as tf

from modeling.attention import masks


@dataclasses.dataclass(frozen=True)
class Inputs:
    """A call in one form."""

    batch_size: int | tf.Tensor  # B
    query_len: int | tf.Tensor  # T
    memory_len: int | tf.Tensor  # M, 0 without memory
    # bool [B, T, T] or None, True also between the documents of a row
    perm_mask: tf.Tensor | None
    target_positions: tf.Tensor | None  # int32 [B, P] or None
    # float32 [B, P], 0 for a zero row of a target mapping, or None
    used_rows: tf.Tensor | None
    query_input: tf.Tensor | None  # [B, T] or None; None with target positions
    memory_length: tf.Tensor | None  # int32 [B] or None


def check(
    *,
    input_ids,
    perm_mask=None,
    ranks=None,
    is_target=None,
    target_positions=None,
    target_mapping=None,
    query_input=None,
    documents=None,
    memory=None,
    memory_length=None,
    bi_data=False,
) -> Inputs:
    """Checks the arguments of a backbone call, see `XLNetModel.call`.

    Of the memory it is told the first layer's, [B, M, D]. Raises ValueError:
    two arguments say the same thing, one is missing, or rows of several
    documents have a memory.
    """
    batch, length = size_of(input_ids, 0), size_of(input_ids, 1)
    if bi_data and isinstance(batch, int) and batch % 2:
        raise ValueError(
            "`bi_data` needs an even batch (half forward, half backward), "
            f"received {batch} rows"
        )
    target_positions, used_rows, targets = _targets(
        target_positions, target_mapping, query_input
    )
    if target_positions is not None:
        query_input = None
    perm_mask = _permutation(
        perm_mask, ranks, targets if is_target is None else is_target
    )
    if documents is not None and memory is not None:
        raise ValueError(
            "`documents` and `memory` exclude each other: a memory is of one "
            "document per row"
        )
    perm_mask = masks.any_of(perm_mask, masks.other_documents(documents))
    memory_len = 0
    if memory is None:
        memory_length = None
    else:
        memory_len = size_of(memory, 1)
    return Inputs(
        batch,
        length,
        memory_len,
        perm_mask,
        target_positions,
        used_rows,
        query_input,
        memory_length,
    )


def _targets(positions, mapping, query_input):
    """(int32 [B, P], float32 [B, P] used rows, [B, T] targets) or Nones."""
    if positions is not None and mapping is not None:
        raise ValueError(
            "give `target_positions` or `target_mapping`, not both"
        )
    if mapping is not None:
        mapping = tf.cast(mapping, tf.float32)  # [B, P, T]
        positions = tf.argmax(mapping, -1, tf.int32)  # [B, P]
        return positions, tf.reduce_sum(mapping, -1), tf.reduce_sum(mapping, 1)
    if positions is not None:
        positions = tf.cast(positions, tf.int32)
    return positions, None, query_input


def _permutation(perm_mask, ranks, is_target):
    """bool [B, T, T] or None."""
    if ranks is None:
        return None if perm_mask is None else tf.cast(perm_mask, tf.bool)
    if perm_mask is not None:
        raise ValueError("give `perm_mask` or `ranks`, not both")
    if is_target is None:
        raise ValueError(
            "`ranks` need `is_target` [B, T]: only a target is hidden from "
            "itself"
        )
    return masks.rank_mask(tf.convert_to_tensor(ranks), is_target)


def size_of(x, axis: int):
    """Static size where known, dynamic elsewhere."""
    x = tf.convert_to_tensor(x)
    size = x.shape[axis]
    return tf.shape(x)[axis] if size is None else size
