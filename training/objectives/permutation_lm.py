"""Permutation language modelling with segment recurrence (section 2.3, 2.5)."""

import tensorflow as tf

from common.contract.pairs import has_pair
from training.objectives.contract import Batch, LossOutput, Memory
from training.objectives.language_model import TwoSegmentObjective


class PretrainingObjective(TwoSegmentObjective):
    """The query stream predicts; see `TwoSegmentObjective` for arguments.

    With `perm_mask` and `target_mapping` in a batch (materialized records)
    these are used instead of `ranks` and `target_positions`.

    `next_sentence` is the ablation's loss (Table 6).
    """

    query_stream = True

    def loss(self, model, batch, memory, training, seed):
        """Sums over the targets of the batch; perplexity is exp(loss)."""
        weights = batch["target_weights"]  # [B, P]
        weights *= batch["row_weight"][:, tf.newaxis]
        output = model(
            batch["input_ids"],
            segment_ids=batch["segment_ids"],
            input_mask=batch["input_mask"],
            memory=memory.layers if memory else None,
            memory_length=memory.length if memory else None,
            bi_data=self.bi_data,
            training=training,
            seed=seed,
            **order_arguments(batch),
        )
        loss, count, right = model.lm_loss(
            output.query_output,
            batch["target_ids"],
            weights,
            chunk_size=self.loss_chunk_size,
        )
        metrics = {"lm_loss": (loss, count), "accuracy": (right, count)}
        if self.next_sentence:
            loss += self.pair_loss(
                model,
                output.sequence_output,
                batch,
                batch["row_weight"] * has_pair(batch),
                weights,
                metrics,
                training=training,
                seed=seed,
            )
        new_memory = ()
        if self.memory_len:
            new_memory = Memory(output.new_memory, output.new_memory_length)
        return LossOutput(loss, count, metrics, {}, new_memory)


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
