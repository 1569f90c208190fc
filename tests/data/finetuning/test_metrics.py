"""Metrics against hand-made values and their edge cases."""

import numpy as np
import pytest

from data.finetuning import metrics

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


def test_classes_that_no_label_has_do_not_count_in_macro_f1():
    logits = np.array([[2.0, 0.0, 1.0], [0.0, 1.0, 2.0], [0.0, 1.0, 0.5]])
    got = metrics.classification_metrics(
        logits, np.array([0, 0, 1]), ("macro_f1",)
    )
    # Guesses 0 2 1: class 0 has F1 2/3, class 1 has 1.
    assert got["macro_f1"] == pytest.approx((2 / 3 + 1) / 2)


def test_a_label_is_given_above_the_probability_a_half():
    logits = np.array([[0.25, -0.25], [-0.1, 3.0], [0.1, 0.1]])
    labels = np.array([[1, 0], [1, 1], [0, 1]])
    got = metrics.multi_label_metrics(logits, labels)
    # Guesses 10 01 11: three right of four given and of four true.
    assert got["micro_f1"] == pytest.approx(3 / 4)
    assert got["macro_f1"] == pytest.approx((1 / 2 + 1) / 2)
    assert got["exact_match"] == pytest.approx(1 / 3)


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
