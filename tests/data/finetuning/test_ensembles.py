"""Means of probabilities, choosing members."""

import math

import numpy as np
import pytest

from data.finetuning import ensembles, metrics

RNG = np.random.default_rng(3)


def test_means_are_of_probabilities():
    first, second = RNG.normal(0, 3, (2, 6, 4))
    weights = [1.0, 3.0]

    def combined(head, *logits):
        members = [{"logits": x} for x in logits]
        return ensembles.combine(head, members, weights)["logits"]

    np.testing.assert_allclose(
        metrics.softmax(combined("classification", first, second)),
        0.25 * metrics.softmax(first) + 0.75 * metrics.softmax(second),
        atol=1e-12,
    )
    np.testing.assert_allclose(
        metrics.sigmoid(combined("multi_label", first, second)),
        0.25 * metrics.sigmoid(first) + 0.75 * metrics.sigmoid(second),
        atol=1e-12,
    )
    np.testing.assert_allclose(
        combined("regression", first[:, 0], second[:, 0]),
        0.25 * first[:, 0] + 0.75 * second[:, 0],
    )
    # A certain member keeps the mean finite.
    sure = combined(
        "multi_label", np.full((1, 1), 900.0), np.ones((1, 1)) * 900
    )
    assert np.isfinite(sure).all()
    alone = ensembles.combine("classification", [{"logits": first}], [2.0])
    assert alone["logits"] is first


def test_members_that_are_all_certain_have_no_nan(monkeypatch):
    """Python 3.12's `sum` of floats is exact; that of arrays is not."""

    def exact(values):
        values = list(values)
        plain = all(type(value) is float for value in values)
        return math.fsum(values) if plain else np.sum(values, 0)

    monkeypatch.setattr(ensembles, "sum", exact, raising=False)
    weights = [0.1, 0.2, 0.3]
    assert 0.1 + 0.2 + 0.3 > math.fsum(weights)
    members = [{"logits": np.full([1, 2], 40.0)}] * 3
    found = ensembles.combine("multi_label", members, weights)["logits"]
    assert found.tolist() == [[700.0, 700.0]]


def test_members_are_taken_while_they_help():
    values = {
        (0,): 0.5,
        (1,): 0.7,
        (2,): 0.7,
        (0, 1): 0.8,
        (1, 2): 0.9,
        (0, 1, 2): 0.9,
    }
    found = ensembles.forward_selection(
        3, lambda chosen: values[tuple(sorted(chosen))]
    )
    assert found == ([1, 2], [0.7, 0.9])
    none = ensembles.forward_selection(2, lambda chosen: math.nan)
    assert none[0] == [0]


def test_the_threshold_of_several_labels_is_the_best_one():
    for seed in range(4):
        rng = np.random.default_rng(seed)
        labels = (rng.random((9, 3)) < 0.3).astype(np.float32)
        logits = np.round(rng.normal(0, 2, (9, 3)) + 2 * labels, 1)

        def micro(threshold, logits=logits, labels=labels):
            taken = metrics.sigmoid(logits) > threshold
            right = (taken * labels).sum()
            return 2 * right / max(taken.sum() + labels.sum(), 1)

        found = metrics.best_label_threshold(logits, labels)
        edges = np.unique(metrics.sigmoid(logits))
        every = [0.0, *((edges[1:] + edges[:-1]) / 2)]
        best = max(map(micro, every))
        assert micro(found) == pytest.approx(best)
        assert not np.isin(found, edges)
    scores = metrics.multi_label_metrics(logits, labels, found)
    assert scores["micro_f1"] == pytest.approx(best)
    nothing = metrics.best_label_threshold(logits, np.zeros_like(labels))
    assert nothing == 0.5
