"""Rows of the files that say what a classifier predicts."""

from collections.abc import Sequence

import numpy as np

from data.finetuning import metrics
from data.finetuning.classifier.sets import ClassificationSet
from data.finetuning.examples import TextExample, share_rows


def prediction_rows(
    kind: ClassificationSet,
    examples: Sequence[TextExample],
    logits: np.ndarray,
    threshold: float = 0.5,
) -> list[list[str]]:
    """Header and one row per example: guid, prediction, probabilities.

    Classification has a column per class, multi-label too; regression only
    the value. Texts in the header keep tabs out.

    Args:
      logits: `[N, Y]`, or `[N]` of a regression.
      threshold: of several labels, probabilities above it are labels.
    """
    if kind.head == "regression":
        rows = [["guid", "prediction"]]
        values = np.asarray(logits, np.float64).reshape(-1)
        return rows + [
            [e.guid, repr(round(float(v), 6))]
            for e, v in zip(examples, values, strict=True)
        ]
    multi = kind.head == "multi_label"
    shares = (metrics.sigmoid if multi else metrics.softmax)(logits)
    rows = share_rows([e.guid for e in examples], kind.labels, shares)
    if multi:
        for row, of_row in zip(rows[1:], shares, strict=True):
            names = [kind.labels[i] for i in np.flatnonzero(of_row > threshold)]
            row[1] = kind.options.label_separator.join(names)
    return rows


def labelled_rows(
    kind: ClassificationSet,
    examples: Sequence[TextExample],
    predicted: Sequence[Sequence[str]],
) -> list[list[str]]:
    """Header and one row per example: guid, gold, prediction, its share, texts."""
    count = max(len(e.texts) for e in examples)
    names = ["text"] if count == 1 else [f"text_{i + 1}" for i in range(count)]
    rows = [["guid", "label", *predicted[0][1:], *names]]
    for example, row in zip(examples, predicted[1:], strict=True):
        gold = example.label
        if isinstance(gold, tuple):
            gold = kind.options.label_separator.join(gold)
        rows.append([example.guid, str(gold), *row[1:], *example.texts])
    return rows


def submission_rows(
    kind: ClassificationSet,
    examples: Sequence[TextExample],
    logits: np.ndarray,
) -> list[list[str]]:
    """GLUE's `index<TAB>prediction`; STS-B clipped to 0..5."""
    rows = [["index", "prediction"]]
    if kind.head == "regression":
        values = np.clip(np.asarray(logits, np.float64).reshape(-1), 0.0, 5.0)
        guesses = [f"{v:.3f}" for v in values]
    else:
        guesses = [kind.labels[int(i)] for i in np.argmax(logits, axis=-1)]
    return rows + [[e.guid, g] for e, g in zip(examples, guesses, strict=True)]
