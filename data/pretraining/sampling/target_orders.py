"""Other orders for the targets of stored records.

    random   as stored: each part's targets in an order of their own
    none     the targets of a part see its context and not each other: what
             permutation LM would be without the dependency between targets
    forward  every token in the order of the text (of the row's direction), the
             context too: a left-to-right language model with the same targets

So that rows of an ablation read the same text in the same order with the same
targets. In every case the reuse part never sees the second part.
"""

from collections.abc import Callable

import tensorflow as tf


def ordered_batches(input_fn: Callable, order: str, reuse_len: int) -> Callable:
    """`input_fn` of batches -> one of batches in another order.

    Args:
      input_fn: params -> `tf.data.Dataset` of `common.contract.schema.PRETRAIN_BATCH`.
      order: one of `training.jobs.pretrain_options.TARGET_ORDERS`.
    """
    if order == "random":
        return input_fn

    def make(params):
        return input_fn(params).map(
            lambda batch: reorder(batch, order, reuse_len),
            num_parallel_calls=1,
        )

    return make


@tf.autograph.experimental.do_not_convert
def reorder(batch: dict, order: str, reuse_len: int) -> dict:
    """A batch whose `ranks` [B, T] are those of "none" or "forward".

    Masks that came with it (`--materialize_masks`) are left out: they are of
    the stored order.
    """
    batch = dict(batch)
    for name in ("perm_mask", "target_mapping"):
        batch.pop(name, None)
    ranks = batch["ranks"]  # [B, T]
    positions = tf.zeros_like(ranks) + tf.range(
        ranks.shape[1], dtype=ranks.dtype
    )
    if order == "forward":
        batch["ranks"] = positions
        return batch
    used = tf.cast(batch["target_weights"] > 0, ranks.dtype)  # [B, P]
    hot = tf.one_hot(
        batch["target_positions"], ranks.shape[1], dtype=ranks.dtype
    )
    is_target = tf.reduce_max(hot * used[:, :, tf.newaxis], 1)  # [B, T]
    # SEP and CLS, which have places in a stored order, are context here.
    context = tf.where(positions < reuse_len, -1, reuse_len)
    batch["ranks"] = context + is_target
    return batch
