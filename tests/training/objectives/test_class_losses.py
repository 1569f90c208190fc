"""Class weights and label smoothing against the formula."""

import numpy as np
import pytest
import tensorflow as tf

from modeling import XLNetConfig
from training.objectives.finetuning import (
    ClassificationObjective,
    TokenClassificationObjective,
)

CONFIG = XLNetConfig(
    vocab_size=9, d_model=4, n_layer=1, n_head=1, d_head=4, d_inner=4
)
LABELS = np.array([2, 0, 1, 2, 0], np.int32)
WEIGHTS = (0.5, 3.0, 1.25)


def losses_of(objective, batch, logits, training):
    return objective.row_losses(tf.constant(logits), batch, training)


def expected(logits, labels, smoothing):
    """Cross-entropy with the smoothed target, float64."""
    shifted = logits - logits.max(-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    target = np.full(logits.shape, smoothing / logits.shape[-1])
    target += (1 - smoothing) * np.eye(logits.shape[-1])[labels]
    return -(target * log_p).sum(-1)


def test_weights_and_smoothing_of_classes():
    rng = np.random.default_rng(1)
    logits = rng.normal(0, 2, (5, 3)).astype(np.float32)
    counts = np.array([1, 1, 1, 0, 1], np.float32)
    batch = {"label_ids": LABELS, "example_weight": counts}
    batch = {k: tf.constant(v) for k, v in batch.items()}
    plain = ClassificationObjective(CONFIG, num_labels=3)
    both = ClassificationObjective(
        CONFIG, WEIGHTS, label_smoothing=0.3, num_labels=3
    )
    found = losses_of(both, batch, logits, True)
    np.testing.assert_allclose(
        found.losses, expected(logits, LABELS, 0.3), rtol=2e-6
    )
    # Rows weigh as their labels do; padding weighs nothing; accuracy counts
    # rows.
    weights = np.array(WEIGHTS)[LABELS] * counts
    np.testing.assert_allclose(found.weights, weights, rtol=1e-6)
    np.testing.assert_array_equal(found.counts, counts)
    # Without them, and in evaluations, it is the plain cross-entropy.
    for objective, training in ((plain, True), (both, False)):
        found = losses_of(objective, batch, logits, training)
        np.testing.assert_allclose(
            found.losses, expected(logits, LABELS, 0.0), rtol=2e-6
        )
        assert found.weights is None


def test_weights_of_tags_leave_unlabelled_pieces_out():
    rng = np.random.default_rng(2)
    logits = rng.normal(0, 2, (2, 3, 3)).astype(np.float32)
    labels = np.array([[2, -1, 0], [1, 1, -1]], np.int32)
    batch = {"label_ids": labels, "example_weight": np.ones(2, np.float32)}
    batch = {k: tf.constant(v) for k, v in batch.items()}
    objective = TokenClassificationObjective(CONFIG, WEIGHTS, num_labels=3)
    found = losses_of(objective, batch, logits, True)
    weights = np.where(labels < 0, 0.0, np.array(WEIGHTS)[labels])
    np.testing.assert_allclose(found.weights, weights, rtol=1e-6)
    whole = (found.losses * found.weights).numpy().sum()
    wanted = expected(logits, np.maximum(labels, 0), 0.0)
    assert whole == pytest.approx((wanted * weights).sum(), rel=1e-5)
