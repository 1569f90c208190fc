"""Losses and metrics of the fine-tuning heads by hand, of given logits."""

import numpy as np
import pytest
import tensorflow as tf

from modeling import XLNetConfig
from modeling.heads.question_answering import SpanOutput, SpanTrainingOutput
from training.objectives import finetuning as finetune

CONFIG = XLNetConfig(
    vocab_size=7, d_model=4, n_layer=1, n_head=1, d_head=2, d_inner=3
)
B, T, Y = 3, 4, 5
ROWS = np.array([1.0, 1.0, 0.0], np.float32)  # the last row is padding
RNG = np.random.default_rng(8)


def log_softmax(x):
    x = np.asarray(x, np.float64)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def sigmoid_loss(logits, labels):
    logits = np.asarray(logits, np.float64)
    return np.log1p(np.exp(logits)) - labels * logits


def outcome(objective, output, **batch):
    """(loss sum, weight sum, metrics as sum and count)."""
    inputs = {name: np.zeros((B, T), np.int32) for name in finetune.INPUTS}
    batch = {k: tf.constant(v) for k, v in (inputs | batch).items()}
    batch["example_weight"] = tf.constant(ROWS)
    result = objective.loss(lambda *a, **k: output, batch, None, False, None)
    metrics = {
        name: [float(x) for x in pair] for name, pair in result.metrics.items()
    }
    return float(result.loss_sum), float(result.weight_sum), metrics


def test_classes():
    logits = RNG.normal(size=(B, Y)).astype(np.float32)
    labels = np.array([2, int(logits[1].argmax()), int(logits[2].argmax())])
    labels[0] = (logits[0].argmax() + 1) % Y
    loss, weight, metrics = outcome(
        finetune.ClassificationObjective(CONFIG),
        logits,
        label_ids=labels.astype(np.int32),
    )
    rows = -log_softmax(logits)[np.arange(B), labels]
    assert loss == pytest.approx(rows[:2].sum(), rel=1e-5)
    assert weight == 2
    assert metrics == {"accuracy": [1.0, 2.0]}


def test_independent_labels():
    logits = RNG.normal(size=(B, Y)).astype(np.float32)
    labels = RNG.integers(0, 2, (B, Y)).astype(np.float32)
    loss, weight, metrics = outcome(
        finetune.MultiLabelObjective(CONFIG), logits, label_ids=labels
    )
    assert loss == pytest.approx(
        sigmoid_loss(logits, labels).mean(-1)[:2].sum(), rel=1e-5
    )
    assert (weight, metrics) == (2, {})


def test_a_value():
    logits = np.array([[1.5], [-2.0], [9.0]], np.float32)
    labels = np.array([1.0, 1.0, 1.0], np.float32)
    loss, weight, metrics = outcome(
        finetune.RegressionObjective(CONFIG), logits, label_ids=labels
    )
    assert (loss, weight, metrics) == (0.25 + 9.0, 2, {})


def test_tokens_of_class_0_count_and_those_without_a_label_do_not():
    logits = RNG.normal(size=(B, T, Y)).astype(np.float32)
    labels = np.array([[0, -1, 4, 1], [-1, 0, 3, -1], [1, 1, 1, 1]], np.int32)
    loss, weight, metrics = outcome(
        finetune.TokenClassificationObjective(CONFIG), logits, label_ids=labels
    )
    counted = (labels >= 0) & (ROWS[:, None] > 0)
    found = np.take_along_axis(
        log_softmax(logits), np.maximum(labels, 0)[..., None], -1
    )[..., 0]
    assert loss == pytest.approx(-found[counted].sum(), rel=1e-5)
    assert weight == counted.sum() == 5
    right = (logits.argmax(-1) == labels)[counted].sum()
    assert metrics == {"accuracy": [right, 5.0]}


@pytest.mark.parametrize("answerability", [True, False])
def test_spans(answerability):
    start, end = (log_softmax(RNG.normal(size=(B, T))) for _ in range(2))
    cls = RNG.normal(size=B).astype(np.float32)
    starts, ends = np.array([1, 0, 2], np.int32), np.array([3, 2, 3], np.int32)
    impossible = np.array([0.0, 1.0, 1.0], np.float32)
    loss, weight, metrics = outcome(
        finetune.SpanObjective(CONFIG, answerability=answerability),
        SpanTrainingOutput(
            *(tf.constant(x, tf.float32) for x in (start, end, cls))
        ),
        paragraph_mask=np.ones((B, T), np.int32),
        cls_index=np.array([3, 3, 3], np.int32),
        start_positions=starts,
        end_positions=ends,
        is_impossible=impossible,
    )
    row = np.arange(B)
    wanted = -0.5 * (start[row, starts] + end[row, ends])
    if answerability:
        wanted += 0.5 * sigmoid_loss(cls, impossible)
    assert loss == pytest.approx(wanted[:2].sum(), rel=1e-5)
    assert (weight, metrics) == (2, {})


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
    plain = finetune.ClassificationObjective(CONFIG, num_labels=3)
    both = finetune.ClassificationObjective(
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
    objective = finetune.TokenClassificationObjective(
        CONFIG, WEIGHTS, num_labels=3
    )
    found = losses_of(objective, batch, logits, True)
    weights = np.where(labels < 0, 0.0, np.array(WEIGHTS)[labels])
    np.testing.assert_allclose(found.weights, weights, rtol=1e-6)
    whole = (found.losses * found.weights).numpy().sum()
    wanted = expected(logits, np.maximum(labels, 0), 0.0)
    assert whole == pytest.approx((wanted * weights).sum(), rel=1e-5)


def test_a_search_of_spans_knows_the_longest_answer():
    asked = {}

    def model(**arguments):
        asked.update(arguments)
        return SpanOutput(*[tf.zeros([B, 1])] * 4, tf.zeros([B]))

    names = (*finetune.INPUTS, "paragraph_mask", "cls_index")
    batch = {name: tf.zeros([B, T], tf.int32) for name in names}
    objective = finetune.SpanObjective(CONFIG, max_answer_length=7)
    assert set(objective.predict(model, batch)) == set(SpanOutput._fields)
    assert asked["longest"] == 7
