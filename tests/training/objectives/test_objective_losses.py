"""Losses and metrics of the objectives by hand; models that give constants."""

import types

import numpy as np
import pytest
import tensorflow as tf

from modeling import XLNetConfig, losses
from modeling.heads.question_answering import SpanTrainingOutput
from training.objectives import finetuning as finetune
from training.objectives.permutation_lm import PretrainingObjective

CONFIG = XLNetConfig(
    vocab_size=7, d_model=4, n_layer=1, n_head=1, d_head=2, d_inner=3
)
B, T, P, V, Y = 3, 4, 2, 7, 5
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
        )

    def lm_loss(self, hidden, ids, weights, chunk_size):
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
