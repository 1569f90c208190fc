"""Metrics against hand-made values and their edge cases."""

import numpy as np
import pytest
import sklearn.metrics

from data.finetuning import metrics
from data.finetuning.classifier import reports
from data.finetuning.tagging import metrics as tagging_metrics

LOGITS = np.array([[2.0, 1.0], [0.0, 1.0], [0.0, 3.0], [1.0, 0.0], [0.0, 1.0]])
LABELS = np.array([0, 1, 0, 1, 1])  # guesses: 0 1 1 0 1


def test_classification_by_hand():
    got = metrics.classification_metrics(
        LOGITS, LABELS, ("accuracy", "f1", "matthews", "macro_f1")
    )
    # Class 1: 2 right of 3 guessed and of 3 true; class 0: 1 of 2 and of 2.
    assert got["accuracy"] == pytest.approx(3 / 5)
    assert got["f1"] == pytest.approx(2 / 3)
    assert got["macro_f1"] == pytest.approx((2 / 3 + 1 / 2) / 2)
    # (TP TN - FP FN) / sqrt(...) = (2 * 1 - 1 * 1) / sqrt(3 * 3 * 2 * 2)
    assert got["matthews"] == pytest.approx(1 / 6)
    with pytest.raises(ValueError, match="unknown metric 'bleu'"):
        metrics.classification_metrics(LOGITS, LABELS, ("bleu",))


def test_classes_that_are_guessed_only_count_in_macro_f1():
    logits = np.array([[2.0, 0.0, 1.0], [0.0, 1.0, 2.0], [0.0, 1.0, 0.5]])
    got = metrics.classification_metrics(
        logits, np.array([0, 0, 1]), ("macro_f1",)
    )
    # Guesses 0 2 1: class 0 has F1 2/3, class 1 has 1, class 2 has 0.
    assert got["macro_f1"] == pytest.approx((2 / 3 + 1) / 3)


def reported(text, row):
    """The F1 of a row of scikit-learn's report."""
    line = next(x for x in text.splitlines() if x.strip().startswith(row))
    return float(line.split()[-2])


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
def test_f1_is_scikit_learns_and_that_of_the_report(seed):
    """On random cases, classes without a label and without a guess included."""
    rng = np.random.default_rng(seed)
    rows, classes = rng.integers(1, 9), 5
    names = [f"c{i}" for i in range(classes)]
    labels = rng.integers(0, rng.integers(1, classes + 1), rows)
    logits = rng.normal(size=(rows, classes))
    guesses = logits.argmax(-1)
    wanted = {
        "macro_f1": sklearn.metrics.f1_score(
            labels, guesses, average="macro", zero_division=0.0
        )
    }
    found = metrics.classification_metrics(logits, labels, tuple(wanted))
    assert found == pytest.approx(wanted)
    report = reports.class_report(labels, guesses, names)
    assert reported(report, "macro avg") == pytest.approx(
        found["macro_f1"], abs=1e-4
    )
    gold = [[names[i] for i in labels]]
    said = [[names[i] for i in guesses]]
    tags = tagging_metrics.evaluate(gold, said, chunks=False)
    assert tags["f1"] == pytest.approx(wanted["macro_f1"])
    report = tagging_metrics.report(gold, said, chunks=False)
    assert reported(report, "macro avg") == pytest.approx(tags["f1"], abs=1e-4)
    several = rng.integers(0, 2, (rows, classes))
    chosen = (logits > 0).astype(int)
    found = metrics.multi_label_metrics(logits, several)
    for kind in ("micro", "macro"):
        assert found[f"{kind}_f1"] == pytest.approx(
            sklearn.metrics.f1_score(
                several, chosen, average=kind, zero_division=0.0
            )
        )
    report = reports.class_report(several, chosen, names)
    assert reported(report, "macro avg") == pytest.approx(
        found["macro_f1"], abs=1e-4
    )


def test_a_label_is_given_above_the_probability_a_half():
    logits = np.array([[0.25, -0.25], [-0.1, 3.0], [0.1, 0.1]])
    labels = np.array([[1, 0], [1, 1], [0, 1]])
    got = metrics.multi_label_metrics(logits, labels)
    # Guesses 10 01 11: three right of four given and of four true.
    assert got["micro_f1"] == pytest.approx(3 / 4)
    assert got["macro_f1"] == pytest.approx((1 / 2 + 1) / 2)
    assert got["exact_match"] == pytest.approx(1 / 3)


def test_a_threshold_between_neighbouring_floats_keeps_the_upper_one():
    logits = np.array([[40.0, 36.7]])  # 1 and the largest float64 below it
    labels = np.array([[1.0, 0.0]])
    threshold = metrics.best_label_threshold(logits, labels)
    assert 0.0 < threshold < 1.0
    scores = metrics.multi_label_metrics(logits, labels, threshold)
    assert scores["micro_f1"] == 1.0


def test_one_label_alone_is_scored_where_it_is_given():
    logits = np.array([[3.0], [-3.0], [-3.0], [3.0], [-3.0]])
    labels = np.array([[1], [1], [0], [0], [0]], np.float32)
    got = metrics.multi_label_metrics(logits, labels)
    # One of two given and one of two true; three of five rows are right.
    assert got == pytest.approx(
        {"micro_f1": 0.5, "macro_f1": 0.5, "exact_match": 0.6}
    )
    none = metrics.multi_label_metrics(-np.abs(logits), 0 * labels)
    assert none == {"micro_f1": 0.0, "macro_f1": 0.0, "exact_match": 1.0}
    # A second label that never occurs changes nothing of the first one's.
    wider = [
        np.pad(a, ((0, 0), (0, 1)), constant_values=c)
        for a, c in ((logits, -9.0), (labels, 0.0))
    ]
    assert metrics.multi_label_metrics(*wider)["micro_f1"] == got["micro_f1"]


def test_constant_values_give_zero_and_no_warning():
    constant = np.tile([[1.0, 0.0]], (5, 1))
    got = metrics.classification_metrics(
        constant, LABELS, ("f1", "matthews", "macro_f1")
    )
    assert got["f1"] == got["matthews"] == 0.0
    got = metrics.regression_metrics(np.ones(3), np.arange(3.0))
    assert (got["pearson"], got["spearman"]) == (0.0, 0.0)
    assert metrics.regression_metrics(np.ones(1), np.ones(1))["mse"] == 0


def test_correlations_by_hand():
    got = metrics.regression_metrics(
        np.array([1.0, 2.0, 4.0]), np.array([1.0, 3.0, 2.0])
    )
    # Ranks 1 2 3 against 1 3 2: 1 - 6 * 2 / (3 * 8) = 0.5
    assert got["spearman"] == pytest.approx(0.5)
    assert got["pearson"] == pytest.approx(0.32732683535)
    assert got["mse"] == pytest.approx((0 + 1 + 4) / 3)


def test_probabilities():
    np.testing.assert_allclose(
        metrics.softmax([[1e4, 0.0], [0.0, np.log(3)]]),
        [[1.0, 0.0], [0.25, 0.75]],
    )
    np.testing.assert_allclose(metrics.sigmoid([-800, 0, 800]), [0, 0.5, 1])


def test_values_that_are_not_finite_name_the_example():
    bad = LOGITS.copy()
    bad[3, 1] = np.nan
    with pytest.raises(ValueError, match="example 3 is not finite"):
        metrics.classification_metrics(bad, LABELS, ("accuracy",))
