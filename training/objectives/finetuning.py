"""Losses and outputs of the fine-tuning heads.

Every row's loss is a mean over what the row holds and rows count by
`example_weight`, so that padding rows vanish from sums and counts. B rows,
T length, C options, Y labels.
"""

import tensorflow as tf
import tf_keras

from common import heads
from common.references import resolve
from modeling.encoders.contract import EncoderConfig
from modeling.encoders.registry import spec_of
from training.objectives.contract import Batch, LossOutput, Objective

INPUTS = ("input_ids", "segment_ids", "input_mask")


class FinetuneObjective(Objective):
    """What the heads have in common.

    Args:
      config: the architecture.
      recompute_layers: trade time for memory in the backward pass.
      static_lengths: see `training.static_lengths`.
      head_options: keyword arguments of the model's head.
    """

    label_fields = ("label_ids",)

    def __init__(
        self,
        config: EncoderConfig,
        recompute_layers: bool = False,
        static_lengths: tuple[int, ...] = (),
        **head_options,
    ):
        self.saved_config = config
        # A fine-tuned model carries no memory from one batch to the next.
        self.config = config.with_memory(None)
        if spec_of(config.model_type).capabilities.layout == "cls_first":
            self.pads_left = False
        self.recompute_layers = recompute_layers
        self.static_lengths = static_lengths
        self.head_options = head_options

    def build_model(self) -> tf_keras.Model:
        """The task model, all variables made."""
        row = heads.get(self.name)
        return resolve(row.model)(
            self.config,
            recompute=self.recompute_method(),
            **row.model_options | self.head_options,
        )

    def forward(self, model, batch: Batch, training=False, seed=None):
        """The model's output on the inputs of `batch`."""
        inputs = {name: batch[name] for name in INPUTS}
        return model(**inputs, training=training, seed=seed)

    def predict(self, model, batch: Batch) -> dict[str, tf.Tensor]:
        """`logits` of every row, without labels."""
        return {"logits": self.forward(model, batch)}

    def loss(self, model, batch, memory, training, seed):
        """Sums over the rows that count."""
        del memory
        logits = self.forward(model, batch, training, seed)
        losses, weights, right = self.row_losses(logits, batch)  # [B] each
        metrics = {}
        if right is not None:
            metrics["accuracy"] = (
                tf.reduce_sum(right * weights),
                tf.reduce_sum(weights),
            )
        return LossOutput(
            tf.reduce_sum(losses * weights),
            tf.reduce_sum(weights),
            metrics,
            {"logits": logits},
        )

    def row_losses(self, logits, batch: Batch):
        """(losses, weights, right or None), float32, of like shapes."""
        raise NotImplementedError


class ClassificationObjective(FinetuneObjective):
    """Cross-entropy over Y classes, or over C options."""

    name = "classification"

    def row_losses(self, logits, batch):
        labels = batch["label_ids"]  # [B]
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        right = tf.equal(tf.argmax(logits, -1, labels.dtype), labels)
        return losses, batch["example_weight"], tf.cast(right, tf.float32)


class MultipleChoiceObjective(ClassificationObjective):
    """RACE: logits [B, C], one per option."""

    name = "multiple_choice"


class MultiLabelObjective(FinetuneObjective):
    """Independent labels: the mean of Y sigmoid cross-entropies."""

    name = "multi_label"

    def row_losses(self, logits, batch):
        losses = tf.nn.sigmoid_cross_entropy_with_logits(
            batch["label_ids"], logits
        )
        return tf.reduce_mean(losses, -1), batch["example_weight"], None


class RegressionObjective(FinetuneObjective):
    """Squared error of one value; `logits` are [B]."""

    name = "regression"

    def forward(self, model, batch, training=False, seed=None):
        return tf.squeeze(super().forward(model, batch, training, seed), -1)

    def row_losses(self, logits, batch):
        losses = tf.math.squared_difference(logits, batch["label_ids"])
        return losses, batch["example_weight"], None


class TokenClassificationObjective(FinetuneObjective):
    """One label per token; label -1 does not count. Logits [B, T, Y]."""

    name = "token_classification"
    pads_left = False

    def row_losses(self, logits, batch):
        labels = batch["label_ids"]  # [B, T]
        counts = tf.cast(labels >= 0, tf.float32)
        counts *= batch["example_weight"][:, tf.newaxis]
        labels = tf.maximum(labels, 0)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        right = tf.equal(tf.argmax(logits, -1, labels.dtype), labels)
        return losses, counts, tf.cast(right, tf.float32)


class SpanObjective(FinetuneObjective):
    """SQuAD: half the sum of start and end loss, plus half of answerability.

    Predictions are the beams of `modeling.heads.question_answering.SpanOutput`. An evaluation
    searches beams only: the loss conditions the end on the true start, which
    would be a second pass of the model.

    Args:
      answerability: train the no-answer logit (SQuAD 2.0); the original
        always does.
    """

    name = "span"
    label_fields = ("start_positions", "end_positions", "is_impossible")
    evaluates_loss = False
    pads_left = False

    def __init__(self, config, answerability: bool = True, **options):
        super().__init__(config, **options)
        self.answerability = answerability

    def predict(self, model, batch):
        inputs = {name: batch[name] for name in INPUTS}
        output = model(
            **inputs,
            paragraph_mask=batch["paragraph_mask"],
            cls_index=batch["cls_index"],
        )
        return output._asdict()

    def loss(self, model, batch, memory, training, seed):
        inputs = {name: batch[name] for name in INPUTS}
        output = model(
            **inputs,
            paragraph_mask=batch["paragraph_mask"],
            cls_index=batch["cls_index"],
            start_positions=batch["start_positions"],
            training=training,
            seed=seed,
        )
        weights = batch["example_weight"]  # [B]
        start = -_at(output.start_log_probs, batch["start_positions"])
        end = -_at(output.end_log_probs, batch["end_positions"])
        losses = 0.5 * (start + end)
        if self.answerability:
            losses += 0.5 * tf.nn.sigmoid_cross_entropy_with_logits(
                batch["is_impossible"], output.cls_logits
            )
        return LossOutput(
            tf.reduce_sum(losses * weights), tf.reduce_sum(weights), {}, {}
        )


def _at(log_probs: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
    """log_probs [B, T] at positions [B] -> [B]."""
    return tf.gather(log_probs, positions, batch_dims=1)
