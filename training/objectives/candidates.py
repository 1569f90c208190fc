"""Which candidate a pronoun stands for, by their probabilities (WNLI).

B rows of a batch, T length, P hidden pieces at most.
"""

import tensorflow as tf

from common.contract.schema import MOST_PIECES
from training.objectives.contract import LossOutput
from training.objectives.finetuning import (
    INPUTS,
    FinetuneObjective,
    single_rows,
)

_ROW = (*INPUTS, "ranks")


class CandidateObjective(FinetuneObjective):
    """A candidate's joint probability, and the loss of a right and a wrong one.

    The candidate's pieces are hidden and predicted from left to right by the
    query stream, each from the context and the pieces before it: the product
    is their joint probability, without the independence that a masked language
    model has to assume. log P is its sum, not the mean over pieces. With the
    right candidate c1 and a wrong one c2 (Kocijan et al. 2019, section 3)

        loss = -log P(c1) + alpha max(0, beta + log P(c2) - log P(c1))

    and -log P(c1) alone where there is no wrong one. The encoder needs a query
    stream.
    """

    name = "candidate_ranking"
    metric_names = ("accuracy",)
    label_fields = ()
    evaluates_loss = False
    query_stream = True

    def __init__(
        self, config, alpha: float = 5.0, beta: float = 0.2, **options
    ):
        super().__init__(config, **options)
        self.alpha, self.beta = alpha, beta

    def num_targets(self, element_spec):
        return min(MOST_PIECES, element_spec["input_ids"].shape[-1])

    def forward(self, model, batch, training=False, seed=None):
        """log P of the hidden pieces, float32 [B]."""
        ids, ranks = batch["input_ids"], batch["ranks"]
        length = ids.shape[1]
        order = tf.where(ranks >= 0, length - ranks, 0)  # the first is highest
        order, positions = tf.math.top_k(order, min(MOST_PIECES, length))
        output = model(
            ids,
            segment_ids=batch["segment_ids"],
            input_mask=batch["input_mask"],
            ranks=ranks,
            is_target=ranks >= 0,
            target_positions=positions,
            training=training,
            seed=seed,
        )
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
            tf.gather(ids, positions, batch_dims=1),
            model.lm_logits(output.query_output, output.tables),
        )  # [B, P]
        return -tf.reduce_sum(losses * tf.cast(order > 0, tf.float32), -1)

    def loss(self, model, batch, memory, training, seed):
        """Sums over pairs of rows, [B, 2, T], the right one first."""
        del memory
        rows = single_rows(batch, _ROW)
        scores = tf.reshape(
            self.forward(model, rows, training, seed), [-1, 2]
        )  # [B, 2]
        right, wrong = scores[:, 0], scores[:, 1]
        margin = tf.nn.relu(self.beta + wrong - right)
        losses = -right + self.alpha * batch["rival"] * margin
        weights = batch["example_weight"]
        # A row without a rival is beside itself.
        better = tf.cast(right >= wrong, tf.float32)
        return LossOutput(
            tf.reduce_sum(losses * weights),
            tf.reduce_sum(weights),
            {
                "accuracy": (
                    tf.reduce_sum(better * weights),
                    tf.reduce_sum(weights),
                )
            },
            {},
        )
