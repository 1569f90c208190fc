"""Losses and outputs of the fine-tuning heads.

A loss is a mean over rows, a tagger's over its labelled tokens. Rows count by
`example_weight`, so that padding rows vanish from sums and counts. B rows,
T length, C options, Y labels.
"""

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf
import tf_keras

from common import heads
from common.references import resolve
from modeling.checkpoints import hf
from modeling.encoders.contract import EncoderConfig
from modeling.encoders.registry import spec_of
from modeling.heads import ranking_losses
from training.objectives.contract import Batch, LossOutput, Objective

INPUTS = ("input_ids", "segment_ids", "input_mask")


def inputs_of(batch: Batch) -> dict:
    """What a model is called with."""
    names = [*INPUTS, "packing"] if "packing" in batch else INPUTS
    return {name: batch[name] for name in names}


class RowLosses(NamedTuple):
    """Losses of a batch before they are summed, float32 of like shapes."""

    losses: tf.Tensor
    # 1 where it counts, 0 for padding; what metrics divide by
    counts: tf.Tensor
    # 1 where the answer is right; None for a head without accuracy
    right: tf.Tensor | None = None
    # what losses are multiplied with and divided by; None = counts
    weights: tf.Tensor | None = None


class FinetuneObjective(Objective):
    """What the heads have in common; `head_options` are of the model's head."""

    label_fields = ("label_ids",)

    def __init__(
        self,
        config: EncoderConfig,
        recompute_layers: bool = False,
        static_lengths: tuple[int, ...] = (),
        pack: bool = False,
        **head_options,
    ):
        self.saved_config = hf.without_head(config)
        # A fine-tuned model carries no memory from one batch to the next.
        self.config = config.with_memory(None)
        if spec_of(config.model_type).capabilities.layout == "cls_first":
            self.pads_left = False
        self.recompute_layers = recompute_layers
        self.static_lengths = static_lengths
        self.head_options = head_options
        if pack:
            self.pack_rows()

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
        return model(**inputs_of(batch), training=training, seed=seed)

    def predict(self, model, batch: Batch) -> dict[str, tf.Tensor]:
        """`logits` of every row, without labels."""
        return {"logits": self.forward(model, batch)}

    def loss(self, model, batch, memory, training, seed):
        """Sums over the rows that count."""
        del memory
        logits = self.forward(model, batch, training, seed)
        rows = self.row_losses(logits, batch, training)
        losses, counts, right, weights = rows
        weights = counts if weights is None else weights
        metrics = {}
        if right is not None:
            metrics["accuracy"] = (
                tf.reduce_sum(right * counts),
                tf.reduce_sum(counts),
            )
        return LossOutput(
            tf.reduce_sum(losses * weights),
            tf.reduce_sum(weights),
            metrics,
            {"logits": logits},
        )

    def row_losses(self, logits, batch: Batch, training: bool) -> RowLosses:
        """The losses of a batch with labels."""
        raise NotImplementedError


class ClassObjective(FinetuneObjective):
    """Cross-entropy over classes, with what a training may change of it.

    Neither changes an evaluation: its loss is the plain cross-entropy, which
    runs with other weights can be compared by.

    Args:
      class_weights: of Y classes; a row's loss counts by that of its label,
        and the sum is divided by the sum of these; empty = all alike.
      label_smoothing: e; the target is 1 - e of the label and e of all Y
        classes alike (Szegedy et al. 2016, section 7).
    """

    metric_names = ("accuracy",)

    def __init__(
        self,
        config: EncoderConfig,
        class_weights: Sequence[float] = (),
        label_smoothing: float = 0.0,
        **options,
    ):
        super().__init__(config, **options)
        self.class_weights = tuple(class_weights)
        self.label_smoothing = label_smoothing

    def class_losses(self, logits, labels, counts, training) -> RowLosses:
        """Losses of logits [..., Y] for labels [...], which are all >= 0."""
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        right = tf.equal(tf.argmax(logits, -1, labels.dtype), labels)
        right, weights = tf.cast(right, tf.float32), None
        if training and self.label_smoothing:
            share = self.label_smoothing
            even = -tf.reduce_mean(tf.nn.log_softmax(logits), -1)
            losses = (1.0 - share) * losses + share * even
        if training and self.class_weights:
            weights = counts * tf.gather(
                tf.constant(self.class_weights, tf.float32), labels
            )
        return RowLosses(losses, counts, right, weights)


def single_rows(batch: Batch, names: Sequence[str] = INPUTS) -> Batch:
    """The batch with its rows [B, C, T] as [B * C, T]."""
    length = batch["input_ids"].shape[-1]
    rows = {name: tf.reshape(batch[name], [-1, length]) for name in names}
    return batch | rows


class ClassificationObjective(ClassObjective):
    """Cross-entropy over Y classes.

    Pairs of rows, [B, 2, T] with `rival` (`data.finetuning.classifier.ranked`),
    are ranked: the first class's logit less the second's is a row's score, and
    the loss is the cross-entropy of a softmax over both rows' scores. Where
    there is no rival it is the plain one, the sigmoid's of that score.
    """

    name = "classification"

    def forward(self, model, batch, training=False, seed=None):
        if "rival" not in batch:
            return super().forward(model, batch, training, seed)
        logits = super().forward(model, single_rows(batch), training, seed)
        return tf.reshape(logits, [-1, 2, logits.shape[-1]])

    def row_losses(self, logits, batch, training):
        labels, counts = batch["label_ids"], batch["example_weight"]
        if "rival" not in batch:
            return self.class_losses(logits, labels, counts, training)
        alone = self.class_losses(logits[:, 0], labels, counts, training)
        scores = logits[..., 0] - logits[..., 1]  # [B, 2]
        has_rival = batch["rival"] > 0
        losses = ranking_losses.ranknet(scores[:, 0], scores[:, 1])
        right = tf.cast(scores[:, 0] > scores[:, 1], tf.float32)
        return RowLosses(
            tf.where(has_rival, losses, alone.losses),
            counts,
            tf.where(has_rival, right, alone.right),
            alone.weights,
        )


class MultipleChoiceObjective(ClassificationObjective):
    """RACE: logits [B, C], one per option."""

    name = "multiple_choice"


class MultiLabelObjective(FinetuneObjective):
    """Independent labels: the mean of Y sigmoid cross-entropies."""

    name = "multi_label"

    def row_losses(self, logits, batch, training):
        losses = tf.nn.sigmoid_cross_entropy_with_logits(
            batch["label_ids"], logits
        )
        return RowLosses(tf.reduce_mean(losses, -1), batch["example_weight"])


class RegressionObjective(FinetuneObjective):
    """Squared error of one value; `logits` are [B]."""

    name = "regression"

    def forward(self, model, batch, training=False, seed=None):
        return tf.squeeze(super().forward(model, batch, training, seed), -1)

    def row_losses(self, logits, batch, training):
        losses = tf.math.squared_difference(logits, batch["label_ids"])
        return RowLosses(losses, batch["example_weight"])


class TokenClassificationObjective(ClassObjective):
    """One label per token; label -1 does not count. Logits [B, T, Y]."""

    name = "token_classification"
    pads_left = False

    def row_losses(self, logits, batch, training):
        labels = batch["label_ids"]  # [B, T]
        counts = tf.cast(labels >= 0, tf.float32)
        counts *= batch["example_weight"][:, tf.newaxis]
        return self.class_losses(
            logits, tf.maximum(labels, 0), counts, training
        )


class SpanObjective(FinetuneObjective):
    """SQuAD: half the sum of start and end loss, plus half of answerability.

    Predictions are the beams of `modeling.heads.question_answering.SpanOutput`.
    An evaluation searches beams only: the loss conditions the end on the true
    start, which would be a second pass of the model. With `answerability` the
    no-answer logit is trained (SQuAD 2.0); the original always does. Heads of
    independent logits search spans of at most `max_answer_length` tokens.
    """

    name = "span"
    label_fields = ("start_positions", "end_positions", "is_impossible")
    evaluates_loss = False
    pads_left = False

    def __init__(
        self,
        config,
        answerability: bool = True,
        max_answer_length: int | None = None,
        **options,
    ):
        super().__init__(config, **options)
        self.answerability = answerability
        self.max_answer_length = max_answer_length

    def predict(self, model, batch):
        output = model(
            **inputs_of(batch),
            paragraph_mask=batch["paragraph_mask"],
            cls_index=batch["cls_index"],
            longest=self.max_answer_length,
        )
        return output._asdict()

    def loss(self, model, batch, memory, training, seed):
        output = model(
            **inputs_of(batch),
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
