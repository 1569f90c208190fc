"""Where a classifier is right and wrong: tables and a picture (L1).

Labels and guesses are class indices `[N]`, or `[N, Y]` of 0 and 1 for several
labels per row.
"""

import io
from collections.abc import Sequence

import numpy as np

# Of a picture: with more classes the numbers in its cells cannot be read.
MOST_NUMBERS = 20


def class_report(
    labels: np.ndarray, guesses: np.ndarray, names: Sequence[str]
) -> str:
    """Precision, recall, F1 and number of examples by class, as text.

    Classes that no label and no guess has are left out, so that the averages
    are those of `metrics.classification_metrics`.
    """
    from sklearn import metrics

    shown = list(range(len(names)))
    if np.ndim(labels) == 1:
        shown = np.union1d(labels, guesses).astype(int).tolist()
    return metrics.classification_report(
        labels,
        guesses,
        labels=shown,
        target_names=[names[i] for i in shown],
        digits=4,
        zero_division=0.0,
    )


def confusion_matrix(
    labels: np.ndarray, guesses: np.ndarray, count: int
) -> np.ndarray:
    """Examples by label (rows) and guess (columns), int64 `[Y, Y]`."""
    flat = np.asarray(labels, np.int64) * count + np.asarray(guesses, np.int64)
    return np.bincount(flat, minlength=count * count).reshape(count, count)


def label_counts(labels: np.ndarray, guesses: np.ndarray) -> np.ndarray:
    """Of each label: right, too many, missed, rightly left out; `[Y, 4]`."""
    truth, found = np.asarray(labels) > 0.5, np.asarray(guesses) > 0.5
    pairs = (truth & found, ~truth & found, truth & ~found, ~truth & ~found)
    return np.stack([pair.sum(axis=0) for pair in pairs], axis=-1)


COUNTED = ("true positive", "false positive", "false negative", "true negative")


def table(
    matrix: np.ndarray, rows: Sequence[str], columns: Sequence[str]
) -> list[list[str]]:
    """Header and a row per class."""
    body = [
        [name, *map(str, row)]
        for name, row in zip(rows, matrix.tolist(), strict=True)
    ]
    return [["label", *columns], *body]


def picture(
    matrix: np.ndarray, rows: Sequence[str], columns: Sequence[str]
) -> bytes:
    """A PNG: shares of each row as colour, examples as numbers."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    height, width = (2.5 + 0.3 * min(n, 60) for n in matrix.shape)
    figure = Figure(figsize=(width + 1, height))
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    image = axes.imshow(shares, vmin=0, vmax=1, cmap="Blues", aspect="auto")
    axes.set_xticks(range(len(columns)), columns, rotation=90)
    axes.set_yticks(range(len(rows)), rows)
    axes.set(xlabel="prediction", ylabel="label")
    figure.colorbar(image, label="share of the label's examples")
    if max(matrix.shape) <= MOST_NUMBERS:
        for (i, j), value in np.ndenumerate(matrix):
            dark = shares[i, j] > 0.5
            colour = "white" if dark else "black"
            axes.text(j, i, str(value), ha="center", va="center", color=colour)
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=100, bbox_inches="tight")
    return out.getvalue()
