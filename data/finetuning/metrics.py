"""Metrics on gathered per-example outputs, from scikit-learn and SciPy.

Arrays are numpy, one row per real example in input order; results are plain
floats. A correlation of constant values is undefined and reported as 0.0.
"""

import functools
from collections.abc import Sequence

import numpy as np


def classification_metrics(
    logits: np.ndarray, labels: np.ndarray, names: Sequence[str]
) -> dict[str, float]:
    """Metrics of class predictions: logits `[N, Y]`, labels int `[N]`.

    Names are "accuracy", "f1" (of class 1), "macro_f1" (over the classes that a
    label or a guess has), "matthews". Raises ValueError: an unknown name or a
    logit that is not finite.
    """
    from sklearn import metrics

    _require_finite(logits)
    guesses = np.argmax(logits, axis=-1)  # [N]
    f1 = functools.partial(metrics.f1_score, zero_division=0.0)
    scores = {
        "accuracy": lambda: metrics.accuracy_score(labels, guesses),
        "f1": lambda: f1(labels == 1, guesses == 1),
        "macro_f1": lambda: f1(labels, guesses, average="macro"),
        "matthews": lambda: matthews(labels, guesses),
    }
    if unknown := set(names) - set(scores):
        raise ValueError(f"`names`: unknown metric {min(unknown)!r}")
    return {name: float(scores[name]()) for name in names}


def matthews(labels: np.ndarray, guesses: np.ndarray) -> float:
    """Matthews correlation; 0.0 when one side is constant."""
    from sklearn import metrics

    if len(np.unique(labels)) < 2 or len(np.unique(guesses)) < 2:
        return 0.0
    return float(metrics.matthews_corrcoef(labels, guesses))


def multi_label_metrics(
    logits: np.ndarray, labels: np.ndarray, threshold: float = 0.5
) -> dict[str, float]:
    """Micro and macro F1, exact-match accuracy; labels are 0 or 1, `[N, Y]`."""
    from sklearn import metrics

    _require_finite(logits)
    guesses = (sigmoid(logits) > threshold).astype(int)
    truth = labels.astype(int)
    # One column would be two classes to scikit-learn: 1 alone is asked.
    one = {"labels": [1]} if truth.shape[-1] == 1 else {}
    f1 = functools.partial(metrics.f1_score, zero_division=0.0, **one)
    return {
        "micro_f1": float(f1(truth, guesses, average="micro")),
        "macro_f1": float(f1(truth, guesses, average="macro")),
        "exact_match": float((guesses == truth).all(axis=-1).mean()),
    }


def best_label_threshold(logits: np.ndarray, labels: np.ndarray) -> float:
    """The one threshold of all labels with the best micro F1.

    It lies half-way between two probabilities; the first best one from above
    wins, and 0.5 where no label is right. Both arrays are `[N, Y]`.
    """
    _require_finite(logits)
    values = sigmoid(logits).reshape(-1)
    order = np.argsort(-values, kind="stable")
    values = values[order]  # [N * Y], falling
    right = np.cumsum(np.asarray(labels).reshape(-1)[order])
    f1 = 2.0 * right / (np.arange(1, len(values) + 1) + max(right[-1], 1.0))
    below = np.append(values[1:], 0.0)
    f1[values == below] = -1.0  # equals are taken together
    best = int(np.argmax(f1))
    if f1[best] <= 0.0:
        return 0.5
    middle = 0.5 * (values[best] + below[best])
    # Between neighbours of float64 there is none: it may have rounded up.
    return float(middle if middle < values[best] else below[best])


def regression_metrics(
    values: np.ndarray, labels: np.ndarray
) -> dict[str, float]:
    """Pearson and Spearman correlation and mean squared error, `[N]` each."""
    from scipy import stats

    _require_finite(values)
    values = np.asarray(values, np.float64).reshape(-1)
    labels = np.asarray(labels, np.float64)
    result = {"mse": float(np.mean((values - labels) ** 2))}
    constant = len(values) < 2 or np.ptp(values) == 0 or np.ptp(labels) == 0
    for name, function in (
        ("pearson", stats.pearsonr),
        ("spearman", stats.spearmanr),
    ):
        result[name] = 0.0 if constant else float(function(values, labels)[0])
    return result


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities over the last axis, float64."""
    logits = np.asarray(logits, np.float64)
    exps = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return exps / exps.sum(axis=-1, keepdims=True)


def sigmoid(logits: np.ndarray) -> np.ndarray:
    """Probabilities of independent labels, float64."""
    return 0.5 * (1.0 + np.tanh(0.5 * np.asarray(logits, np.float64)))


def _require_finite(values: np.ndarray) -> None:
    if not np.all(np.isfinite(values)):
        row = int(np.argwhere(~np.isfinite(values))[0][0])
        raise ValueError(f"the model's output for example {row} is not finite")
