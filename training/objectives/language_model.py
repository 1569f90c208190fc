"""What language models have in common, whatever they predict from what."""

import tensorflow as tf
import tf_keras

from common import summary
from common.errors import UserError
from modeling import PretrainingModel
from modeling.encoders.contract import EncoderConfig
from modeling.encoders.registry import spec_of
from training.objectives.contract import (
    Batch,
    LossOutput,
    Memory,
    Objective,
)


class LanguageModelObjective(Objective):
    """Predicts `target_ids` [B, P]; its metric `lm_loss` is in nats.

    Raises UserError: `loss_chunk_size` is not positive.
    """

    metric_names = ("lm_loss",)
    perplexity = "perplexity"  # the derived metric's name
    shown_metrics = {"perplexity": "ppl", "accuracy": "acc"}

    def __init__(self, loss_chunk_size: int | None = None):
        if loss_chunk_size is not None and loss_chunk_size < 1:
            raise UserError(
                f"`loss_chunk_size` must be >= 1, received {loss_chunk_size}"
            )
        self.loss_chunk_size = loss_chunk_size

    def predict(self, model, batch):
        """Nothing is predicted per row."""
        raise UserError(f"{self.name} has no mode=predict; use mode=eval")

    def derived_metrics(self, means):
        """Perplexity, exp(loss) without overflow."""
        return {self.perplexity: summary.perplexity(means["lm_loss"])}

    def num_targets(self, element_spec):
        """P."""
        return element_spec["target_ids"].shape[-1]


class TwoSegmentObjective(LanguageModelObjective):
    """Batches are `common.contract.schema.PRETRAIN_BATCH`: rows of two texts.

    The config's memory lengths count. `next_sentence` adds the loss of the
    second head: a row's share of it is weighted by the row's targets, so that
    one denominator serves both.
    """

    name = "pretraining"

    def __init__(
        self,
        config: EncoderConfig,
        bi_data: bool = True,
        next_sentence: bool = False,
        loss_chunk_size: int | None = None,
        recompute_layers: bool = False,
        pack: bool = False,
        **model_options,
    ):
        super().__init__(loss_chunk_size)
        self.config = config
        self.bi_data = bi_data
        self.next_sentence = next_sentence
        pair = ("next_sentence_accuracy",) if next_sentence else ()
        self.metric_names = ("lm_loss", "accuracy", *pair)
        self.recompute_layers = recompute_layers
        self.model_options = model_options
        self.row_groups = 2 if bi_data else 1
        self.memory_len = config.mem_len or 0
        if pack:
            self.pack_rows()

    def pack_rows(self) -> None:
        """See `Objective`; distances count gaps, so that rows have none."""
        if spec_of(self.config.model_type).capabilities.query_stream:
            raise UserError(
                f"--pack: {self.config.model_type} packs rows in fine-tuning "
                "only; pretraining rows may have a gap after the reuse part; "
                "leave it out"
            )
        super().pack_rows()

    def build_model(self) -> tf_keras.Model:
        """A `PretrainingModel`, all variables made."""
        return PretrainingModel(
            self.config,
            next_sentence=self.next_sentence,
            recompute=self.recompute_method(),
            **self.model_options,
        )

    def more_arguments(self, batch: Batch, memory: Memory | None) -> dict:
        """Of the model's call: order, memory, directions, as it has them."""
        raise NotImplementedError

    def predicting_states(self, output, batch: Batch) -> tf.Tensor:
        """[B, P, D] of the model's output, which the targets are read of."""
        raise NotImplementedError

    def pair_weights(self, batch: Batch) -> tf.Tensor:
        """float32 [B], 1 where the label of two segments counts."""
        raise NotImplementedError

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
            **self.more_arguments(batch, memory),
        )
        loss, count, right = model.lm_loss(
            self.predicting_states(output, batch),
            batch["target_ids"],
            weights,
            chunk_size=self.loss_chunk_size,
            tables=output.tables,
        )
        metrics = {"lm_loss": (loss, count), "accuracy": (right, count)}
        if self.next_sentence:
            loss += self.pair_loss(
                model,
                output.sequence_output,
                batch,
                self.pair_weights(batch),
                weights,
                metrics,
                training=training,
                seed=seed,
            )
        new_memory = ()
        if self.memory_len:
            new_memory = Memory(output.new_memory, output.new_memory_length)
        return LossOutput(loss, count, metrics, {}, new_memory)

    def pair_loss(
        self,
        model,
        states: tf.Tensor,
        batch: Batch,
        rows,
        weights,
        metrics,
        **how,
    ) -> tf.Tensor:
        """The second head's loss, float32 scalar; its accuracy goes to metrics.

        Of the content stream's states [B, T, D], `input_mask` and
        `next_sentence_label` [B] of the batch. `rows` are float32 [B], 1 where
        the label counts, `weights` float32 [B, P], of the row's targets; 0 in
        rows of padding.
        """
        logits = model.next_sentence_logits(
            states, input_mask=batch["input_mask"], **how
        )  # [B, 2]
        labels = batch["next_sentence_label"]
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        right = tf.equal(tf.argmax(logits, -1, labels.dtype), labels)
        metrics["next_sentence_accuracy"] = (
            tf.reduce_sum(tf.cast(right, tf.float32) * rows),
            tf.reduce_sum(rows),
        )
        return tf.reduce_sum(losses * rows * tf.reduce_sum(weights, 1))
