"""A ranker's model reads rows; its losses are those of lists."""

import math

import numpy as np
import pytest
import tensorflow as tf

from modeling import XLNetConfig
from training.objectives.ranking import RankingObjective

CONFIG = XLNetConfig(
    vocab_size=7, d_model=4, n_layer=1, n_head=1, d_head=2, d_inner=3
)
B, C, T = 2, 3, 5


class Scorer:
    """Scores a row by the sum of its ids; remembers shapes."""

    def __call__(self, input_ids, segment_ids, input_mask, training, seed):
        self.shapes = [x.shape for x in (input_ids, segment_ids, input_mask)]
        self.how = training, seed
        total = tf.reduce_sum(input_ids * input_mask, -1, keepdims=True)
        return tf.cast(total, tf.float32) / 4.0  # [B * C, 1]


def batch_of(lead=(B, C)):
    rng = np.random.default_rng(2)
    ids = rng.integers(0, 7, (*lead, T)).astype(np.int32)
    mask = rng.integers(0, 2, (*lead, T)).astype(np.int32)
    return {
        "input_ids": tf.constant(ids),
        "segment_ids": tf.zeros_like(ids),
        "input_mask": tf.constant(mask),
    }


def scores_of(batch):
    return (batch["input_ids"] * batch["input_mask"]).numpy().sum(-1) / 4.0


def test_documents_of_a_query_are_scored_in_their_order():
    model, batch = Scorer(), batch_of()
    found = RankingObjective(CONFIG).predict(model, batch)["logits"]
    assert found.shape == (B, C)
    np.testing.assert_allclose(found, scores_of(batch))
    assert model.shapes == [(B * C, T)] * 3
    assert model.how == (False, None)


def test_an_evaluation_scores_rows_alone():
    """Rows come without lists, and there is no loss of a list."""
    objective = RankingObjective(CONFIG)
    batch = batch_of((4,))
    found = objective.predict(Scorer(), batch)["logits"]
    assert found.shape == (4,)
    np.testing.assert_allclose(found, scores_of(batch))
    assert objective.evaluates_loss is False


@pytest.mark.parametrize("name", ["hinge", "ranknet"])
def test_the_loss_is_of_the_pairs_of_unlike_grades(name):
    """The second query is padding and does not count."""
    batch = batch_of()
    grades = np.array([[0, 2, 2], [1, 0, 0]], np.float32)
    batch["label_ids"] = tf.constant(grades)
    batch["example_weight"] = tf.constant([1.0, 0.0])
    first = scores_of(batch)[0]
    pairs = [first[i] - first[0] for i in (1, 2)]
    wanted = {
        "hinge": [max(0.0, 1.0 - d) for d in pairs],
        "ranknet": [math.log1p(math.exp(-d)) for d in pairs],
    }[name]
    assert pairs[0] != pairs[1]
    objective = RankingObjective(CONFIG, rank_loss=name)
    seed = tf.constant([1, 2])
    model = Scorer()
    found = objective.loss(model, batch, None, True, seed)
    assert float(found.loss_sum) == pytest.approx(np.mean(wanted), rel=1e-5)
    assert float(found.weight_sum) == 1.0
    assert found.metrics == {} and model.how == (True, seed)


def test_hinge_is_the_default_and_an_unknown_loss_is_named():
    assert RankingObjective(CONFIG).rank_loss == "hinge"
    batch = batch_of() | {
        "label_ids": tf.zeros([B, C]),
        "example_weight": tf.ones([B]),
    }
    objective = RankingObjective(CONFIG, rank_loss="listnet")
    with pytest.raises(ValueError, match="ranking loss, received 'listnet'"):
        objective.loss(Scorer(), batch, None, True, None)
