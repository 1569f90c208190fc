"""Masked language modelling (BERT) for every encoder, with or without memory.

Batches are those of `data.pretraining.masking`: rows are corrupted there.
"""

import tensorflow as tf
import tf_keras

from common.errors import UserError
from modeling import PretrainingModel
from modeling.encoders.contract import EncoderConfig
from modeling.encoders.registry import spec_of
from training.objectives.contract import LossOutput, Memory
from training.objectives.language_model import LanguageModelObjective


class MaskedLMObjective(LanguageModelObjective):
    """The targets' pieces from the content stream of corrupted rows.

    With XLNet's backbone this is the denoising objective of the paper's
    ablation (Table 6, row 2): no query stream, the plain tied head, memory of
    the corrupted rows.

    Args:
      config: the architecture.
      bi_data: the second half of the rows is backward.
      next_sentence: add the second head's loss (NSP or SOP). A row's share of
        it is weighted by the row's targets, so that one denominator serves
        both.
      loss_chunk_size: rows of logits alive at a time; None = all.
      recompute_layers: trade time for memory in the backward pass.
      model_options: more keyword arguments of `PretrainingModel`.

    Raises:
      UserError: backward rows with an encoder that reads one direction.
    """

    name = "pretraining"
    # Never beside the perplexity of permutation LM: other contexts.
    perplexity = "masked_lm_perplexity"
    shown_metrics = {"masked_lm_perplexity": "mlm-ppl", "accuracy": "acc"}

    def __init__(
        self,
        config: EncoderConfig,
        bi_data: bool = False,
        next_sentence: bool = False,
        loss_chunk_size: int | None = None,
        recompute_layers: bool = False,
        **model_options,
    ):
        super().__init__(loss_chunk_size)
        self.able = spec_of(config.model_type).capabilities
        if bi_data and self.able.directions < 2:
            raise UserError(
                f"{config.model_type} reads rows from left to right: build the "
                "data with --nobi_data"
            )
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
        """Sums over the targets of the batch."""
        weights = batch["target_weights"]  # [B, P]
        weights *= batch["row_weight"][:, tf.newaxis]
        output = model(
            batch["input_ids"],
            segment_ids=batch["segment_ids"],
            input_mask=batch["input_mask"],
            training=training,
            seed=seed,
            **self._more_arguments(batch, memory),
        )
        hidden = tf.gather(
            output.sequence_output, batch["target_positions"], batch_dims=1
        )  # [B, P, D]
        loss, count, right = model.lm_loss(
            hidden,
            batch["target_ids"],
            weights,
            chunk_size=self.loss_chunk_size,
        )
        metrics = {"lm_loss": (loss, count), "accuracy": (right, count)}
        if self.next_sentence:
            loss += self._pair_loss(
                model, output, batch, weights, metrics, training, seed
            )
        new_memory = ()
        if self.memory_len:
            new_memory = Memory(output.new_memory, output.new_memory_length)
        return LossOutput(loss, count, metrics, {}, new_memory)

    def _more_arguments(self, batch, memory) -> dict:
        """What only encoders with memory or two directions take."""
        found = {}
        if self.able.directions > 1:
            found["bi_data"] = self.bi_data
        if self.memory_len:
            found["memory"] = memory.layers if memory else None
            found["memory_length"] = memory.length if memory else None
            # No token is a target of the mask: only what ranks hide is hidden.
            found["ranks"] = batch["ranks"]
            found["is_target"] = tf.zeros_like(batch["ranks"])
        return found

    def _pair_loss(
        self, model, output, batch, weights, metrics, training, seed
    ):
        """A row's share is weighted by its targets: one denominator for both.

        As in `permutation_lm`; rows that do not count have the weight 0.
        """
        logits = model.next_sentence_logits(
            output.sequence_output,
            input_mask=batch["input_mask"],
            training=training,
            seed=seed,
        )  # [B, 2]
        labels, rows = batch["next_sentence_label"], batch["pair_weight"]
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        right = tf.equal(tf.argmax(logits, -1, labels.dtype), labels)
        metrics["next_sentence_accuracy"] = (
            tf.reduce_sum(tf.cast(right, tf.float32) * rows),
            tf.reduce_sum(rows),
        )
        return tf.reduce_sum(losses * rows * tf.reduce_sum(weights, 1))
