"""Permutation language modelling with segment recurrence (section 2.3, 2.5)."""

import tensorflow as tf
import tf_keras

from modeling import PretrainingModel
from modeling.encoders.contract import EncoderConfig
from training.objectives.contract import Batch, LossOutput, Memory
from training.objectives.language_model import LanguageModelObjective


class PretrainingObjective(LanguageModelObjective):
    """Batches are `data.schema.PRETRAIN_BATCH`.

    With `perm_mask` and `target_mapping` in a batch (materialized records)
    these are used instead of `ranks` and `target_positions`.

    Args:
      config: the architecture; its `mem_len` and `reuse_len` count.
      bi_data: the second half of the rows is backward.
      next_sentence: add the ablation's loss (Table 6). A row's share of it is
        weighted by the row's targets, so that one denominator serves both.
      loss_chunk_size: rows of logits alive at a time; None = all.
      recompute_layers: trade time for memory in the backward pass.
      model_options: more keyword arguments of `PretrainingModel`.
    """

    name = "pretraining"
    query_stream = True

    def __init__(
        self,
        config: EncoderConfig,
        bi_data: bool = True,
        next_sentence: bool = False,
        loss_chunk_size: int | None = None,
        recompute_layers: bool = False,
        **model_options,
    ):
        super().__init__(loss_chunk_size)
        self.config = config
        self.bi_data = bi_data
        self.next_sentence = next_sentence
        self.recompute_layers = recompute_layers
        self.model_options = model_options
        self.row_groups = 2 if bi_data else 1
        self.memory_len = config.mem_len or 0

    def build_model(self) -> tf_keras.Model:
        """A `PretrainingModel`, all variables made."""
        return PretrainingModel(
            self.config,
            next_sentence=self.next_sentence,
            recompute=self.recompute_method(),
            **self.model_options,
        )

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
            loss += self._next_sentence(
                model, output, batch, weights, metrics, training, seed
            )
        new_memory = ()
        if self.memory_len:
            new_memory = Memory(output.new_memory, output.new_memory_length)
        return LossOutput(loss, count, metrics, {}, new_memory)

    def _next_sentence(
        self, model, output, batch, weights, metrics, training, seed
    ):
        logits = model.next_sentence_logits(
            output.sequence_output,
            input_mask=batch["input_mask"],
            training=training,
            seed=seed,
        )  # [B, 2]
        labels = batch["next_sentence_label"]
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        rows = batch["row_weight"]
        right = tf.equal(tf.argmax(logits, -1, labels.dtype), labels)
        metrics["next_sentence_accuracy"] = (
            tf.reduce_sum(tf.cast(right, tf.float32) * rows),
            tf.reduce_sum(rows),
        )
        return tf.reduce_sum(losses * tf.reduce_sum(weights, 1))


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
