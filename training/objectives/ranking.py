"""Losses of a cross-encoder over the documents of a query.

B queries of a batch, C documents of each, T length.
"""

import tensorflow as tf

from modeling.encoders.contract import EncoderConfig
from modeling.heads import ranking_losses
from training.objectives.finetuning import (
    INPUTS,
    FinetuneObjective,
    RowLosses,
    inputs_of,
)


class RankingObjective(FinetuneObjective):
    """Scores [B, C] of lists, or [B] of single rows.

    An evaluation scores rows alone: the loss is one of lists. It is "hinge",
    "ranknet" (of pairs of unlike grades), "softmax" (of the list) or
    "pointwise".
    """

    name = "ranking"
    evaluates_loss = False

    def __init__(
        self, config: EncoderConfig, rank_loss: str = "hinge", **options
    ):
        super().__init__(config, **options)
        self.rank_loss = rank_loss

    def forward(self, model, batch, training=False, seed=None):
        shape = batch["input_ids"].shape
        rows = inputs_of(batch)
        for name in INPUTS:
            rows[name] = tf.reshape(rows[name], [-1, shape[-1]])
        scores = super().forward(model, rows, training, seed)  # [B * C, 1]
        return tf.reshape(scores, [-1, *shape[1:-1]])

    def row_losses(self, logits, batch, training):
        losses = ranking_losses.of_lists(
            self.rank_loss, logits, batch["label_ids"]
        )
        return RowLosses(losses, batch["example_weight"])
