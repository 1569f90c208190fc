"""The loss of the query stream by hand; what its model is called with."""

import types

import numpy as np
import pytest
import tensorflow as tf

from modeling import XLNetConfig, losses
from training.objectives.permutation_lm import (
    PretrainingObjective,
    order_arguments,
)

CONFIG = XLNetConfig(
    vocab_size=7, d_model=4, n_layer=1, n_head=1, d_head=2, d_inner=3
)
B, T, P, V = 3, 4, 2, 7
ROWS = np.array([1.0, 1.0, 0.0], np.float32)  # the last row is padding
RNG = np.random.default_rng(8)


def log_softmax(x):
    x = np.asarray(x, np.float64)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


class LanguageModel:
    """Constant logits; remembers how it was called."""

    def __init__(self):
        self.logits = tf.constant(RNG.normal(size=(B, P, V)), tf.float32)
        self.next_logits = tf.constant(RNG.normal(size=(B, 2)), tf.float32)

    def __call__(self, input_ids, **arguments):
        self.arguments = arguments
        return types.SimpleNamespace(
            query_output=None,
            sequence_output=None,
            new_memory=("new",),
            new_memory_length="length",
            tables=None,
        )

    def lm_loss(self, hidden, ids, weights, chunk_size, tables):
        return losses.weighted_sums(self.logits, ids, weights)

    def next_sentence_logits(self, hidden, **arguments):
        return self.next_logits


def pretraining_batch():
    return {
        "input_ids": tf.constant(RNG.integers(0, V, (B, T)), tf.int32),
        "segment_ids": tf.constant([[0, 0, 1, 2]] * B, tf.int32),
        "input_mask": tf.ones([B, T], tf.int32),
        "ranks": tf.constant(RNG.integers(0, T, (B, T)), tf.int32),
        "target_positions": tf.constant([[1, 3], [2, 0], [1, 2]]),
        "target_ids": tf.constant([[1, 2], [3, 0], [4, 5]]),
        # The second row's second slot is unused; the third row is of no lane.
        "target_weights": tf.constant([[1.0, 1.0], [1.0, 0.0], [1.0, 1.0]]),
        "row_weight": tf.constant(ROWS),
        "next_sentence_label": tf.constant([1, 0, 1]),
    }


@pytest.mark.parametrize("next_sentence", [False, True])
def test_pretraining(next_sentence):
    objective = PretrainingObjective(
        CONFIG.replace(mem_len=3), next_sentence=next_sentence
    )
    model, batch = LanguageModel(), pretraining_batch()
    result = objective.loss(model, batch, None, False, None)
    log_probs = log_softmax(model.logits)
    tokens = [log_probs[0, 0, 1], log_probs[0, 1, 2], log_probs[1, 0, 3]]
    lm_loss = -np.sum(tokens)
    best = model.logits.numpy().argmax(-1)
    right = int(best[0, 0] == 1) + int(best[0, 1] == 2) + int(best[1, 0] == 3)
    wanted = {"lm_loss": [lm_loss, 3], "accuracy": [right, 3]}
    loss = lm_loss
    if next_sentence:
        # A row's share is weighted by its targets: two and one.
        log_probs = log_softmax(model.next_logits)
        loss -= 2 * log_probs[0, 1] + log_probs[1, 0]
        best = model.next_logits.numpy().argmax(-1)
        right = int(best[0] == 1) + int(best[1] == 0)
        wanted["next_sentence_accuracy"] = [right, 2]
    assert float(result.loss_sum) == pytest.approx(loss, rel=1e-5)
    assert float(result.weight_sum) == 3
    assert result.metrics.keys() == wanted.keys()
    for name, pair in wanted.items():
        found = [float(x) for x in result.metrics[name]]
        assert found == pytest.approx(pair, rel=1e-5), name
    assert result.new_memory.layers == ("new",)
    assert model.arguments["bi_data"] is True


def test_a_row_without_a_pair_has_no_next_sentence_loss():
    """The first row ends with its reuse part: no A, no B, no CLS."""
    objective = PretrainingObjective(CONFIG, next_sentence=True)
    model, batch = LanguageModel(), pretraining_batch()
    batch["input_mask"] *= tf.constant([[1, 1, 0, 0], [1] * T, [1] * T])
    result = objective.loss(model, batch, None, False, None)
    log_probs = log_softmax(model.next_logits)
    pairs = float(result.loss_sum - result.metrics["lm_loss"][0])
    assert pairs == pytest.approx(-log_probs[1, 0], rel=1e-4)
    assert float(result.metrics["next_sentence_accuracy"][1]) == 1


def test_position_0_is_no_target_where_a_slot_is_unused():
    model, batch = LanguageModel(), pretraining_batch()
    PretrainingObjective(CONFIG).loss(model, batch, None, False, None)
    assert model.arguments["is_target"].numpy().tolist() == [
        [0, 1, 0, 1],
        [0, 0, 1, 0],
        [0, 1, 1, 0],
    ]


def test_materialized_orders_are_taken_as_they_are():
    """`perm_mask` and `target_mapping` win over ranks and positions."""
    batch = pretraining_batch()
    given = {
        "perm_mask": tf.ones([B, T, T]),
        "target_mapping": tf.zeros([B, P, T]),
    }
    found = order_arguments(batch | given)
    assert found.keys() == given.keys()
    assert all(found[name] is given[name] for name in given)
    ranks = order_arguments(batch)
    assert set(ranks) == {"ranks", "is_target", "target_positions"}
    assert ranks["ranks"] is batch["ranks"]


def test_a_target_that_two_slots_name_is_one():
    batch = pretraining_batch()
    batch["target_positions"] = tf.constant([[1, 1], [2, 2], [0, 3]])
    batch["target_weights"] = tf.constant([[1.0, 1.0], [0.0, 0.0], [2.5, 0.0]])
    found = order_arguments(batch)["is_target"]
    assert found.numpy().tolist() == [
        [0, 1, 0, 0],
        [0, 0, 0, 0],
        [1, 0, 0, 0],
    ]
