"""Permutation language modelling with segment recurrence (section 2.3, 2.5)."""

import tensorflow as tf

from common.contract.pairs import has_pair
from training.objectives.contract import Batch
from training.objectives.language_model import TwoSegmentObjective


class PretrainingObjective(TwoSegmentObjective):
    """The query stream predicts; see `TwoSegmentObjective` for arguments.

    With `perm_mask` and `target_mapping` in a batch (materialized records)
    these are used instead of `ranks` and `target_positions`.

    `next_sentence` is the ablation's loss (Table 6).
    """

    query_stream = True

    def more_arguments(self, batch, memory):
        return {
            "memory": memory.layers if memory else None,
            "memory_length": memory.length if memory else None,
            "bi_data": self.bi_data,
        } | order_arguments(batch)

    def predicting_states(self, output, batch):
        del batch
        return output.query_output

    def pair_weights(self, batch):
        return batch["row_weight"] * has_pair(batch)


def order_arguments(batch: Batch) -> dict[str, tf.Tensor]:
    """The factorization order as the backbone takes it."""
    if "perm_mask" in batch:
        return {
            "perm_mask": batch["perm_mask"],
            "target_mapping": batch["target_mapping"],
        }
    positions = batch["target_positions"]  # [B, P]
    length = batch["input_ids"].shape[1]
    used = tf.cast(batch["target_weights"] > 0, tf.float32)
    places = tf.one_hot(positions, length) * used[:, :, tf.newaxis]
    return {
        "ranks": batch["ranks"],
        "is_target": tf.reduce_max(places, 1),  # [B, T]
        "target_positions": positions,
    }
