"""Where a classifier is right and wrong: tables and a picture.

Labels and guesses are class indices `[N]`, or `[N, Y]` of 0 and 1 for several
labels per row.
"""

import io
import warnings
from collections.abc import Sequence

import numpy as np

from common import figures
from data.finetuning import examples as task_examples
from data.finetuning import metrics
from data.finetuning.classifier.sets import ClassificationSet
from data.finetuning.examples import TextExample

# Of a picture: with more classes the numbers in its cells cannot be read.
MOST_NUMBERS = 20
# Of a matrix and of a picture.
MOST_CLASSES = 100


def class_report(
    labels: np.ndarray, guesses: np.ndarray, names: Sequence[str]
) -> str:
    """Precision, recall, F1 and number of examples by class, as text.

    Classes that no label and no guess has are left out, so that the averages
    are those of `metrics.classification_metrics`.
    """
    from sklearn import metrics

    shown = asked = list(range(len(names)))
    if np.ndim(labels) == 1:
        shown = asked = np.union1d(labels, guesses).astype(int).tolist()
    elif len(names) == 1:
        # One column is two classes to scikit-learn: the label's is 1.
        asked = [1]
    return metrics.classification_report(
        labels,
        guesses,
        labels=asked,
        target_names=[names[i] for i in shown],
        digits=4,
        zero_division=0.0,
    )


def _confused_pairs(
    labels: np.ndarray, guesses: np.ndarray, names: Sequence[str]
) -> list[list[str]]:
    """Header, then label, guess and examples of every pair that occurs.

    The table of many classes: a matrix would be of their square.
    """
    pairs, counts = np.unique(
        np.stack([labels, guesses], -1), axis=0, return_counts=True
    )
    rows = [
        [names[int(i)], names[int(j)], str(n)]
        for (i, j), n in zip(pairs, counts, strict=True)
    ]
    return [["label", "prediction", "examples"], *rows]


def confusion(
    labels: np.ndarray, guesses: np.ndarray, names: Sequence[str]
) -> tuple[list[list[str]], np.ndarray, list[str]]:
    """Rows of the table; the matrix of the picture and the names of its classes.

    With more than `MOST_CLASSES` the table has a row per pair that occurs, and
    the picture the classes that are confused most, among themselves.
    """
    labels = np.asarray(labels, np.int64)
    guesses = np.asarray(guesses, np.int64)
    if len(names) <= MOST_CLASSES:
        matrix = confusion_matrix(labels, guesses, len(names))
        return table(matrix, names, names), matrix, list(names)
    most = _most_confused(labels, guesses, len(names))
    row_of = np.full(len(names), -1)
    row_of[most] = np.arange(len(most))
    inside = (row_of[labels] >= 0) & (row_of[guesses] >= 0)
    matrix = confusion_matrix(
        row_of[labels[inside]], row_of[guesses[inside]], len(most)
    )
    rows = _confused_pairs(labels, guesses, names)
    return rows, matrix, [names[i] for i in most]


def _most_confused(
    labels: np.ndarray, guesses: np.ndarray, count: int
) -> np.ndarray:
    """The `MOST_CLASSES` with most examples taken for others, int64, rising."""
    wrong = labels != guesses
    mistakes = np.bincount(labels[wrong], minlength=count)
    mistakes += np.bincount(guesses[wrong], minlength=count)
    return np.sort(np.argsort(-mistakes, kind="stable")[:MOST_CLASSES])


def confusion_matrix(
    labels: np.ndarray, guesses: np.ndarray, count: int
) -> np.ndarray:
    """Examples by label (rows) and guess (columns), int64 `[Y, Y]`."""
    flat = np.asarray(labels, np.int64) * count + np.asarray(guesses, np.int64)
    return np.bincount(flat, minlength=count * count).reshape(count, count)


def label_counts(labels: np.ndarray, guesses: np.ndarray) -> np.ndarray:
    """Of each label: right, too many, missed, rightly left out; `[Y, 4]`."""
    truth, guess = np.asarray(labels) > 0.5, np.asarray(guesses) > 0.5
    pairs = (truth & guess, ~truth & guess, truth & ~guess, ~truth & ~guess)
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
    families = figures.families([*rows, *columns])
    rows, columns = (
        [figures.literal(name) for name in names] for names in (rows, columns)
    )
    height, width = (2.5 + 0.3 * min(n, 60) for n in matrix.shape)
    size = (width + 1, height)
    figure, ((axes,),) = figures.new(layout=None, figsize=size)
    shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    image = axes.imshow(shares, vmin=0, vmax=1, cmap="Blues", aspect="auto")
    axes.set_xticks(range(len(columns)), columns, rotation=90)
    axes.set_yticks(range(len(rows)), rows)
    for label in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        label.set_fontfamily(families)
    axes.set(xlabel="prediction", ylabel="label")
    figure.colorbar(image, label="share of the label's examples")
    if max(matrix.shape) <= MOST_NUMBERS:
        for (i, j), value in np.ndenumerate(matrix):
            dark = shares[i, j] > 0.5
            colour = "white" if dark else "black"
            axes.text(j, i, str(value), ha="center", va="center", color=colour)
    out = io.BytesIO()
    with warnings.catch_warnings():
        # The caller is told by `figures.note`.
        warnings.filterwarnings("ignore", "Glyph")
        figure.savefig(out, format="png", dpi=100, bbox_inches="tight")
    return out.getvalue()


def prediction_rows(
    kind: ClassificationSet,
    examples: Sequence[TextExample],
    logits: np.ndarray,
    threshold: float = 0.5,
) -> list[list[str]]:
    """Header and one row per example: guid, prediction, probabilities.

    Classification has a column per class, multi-label too; regression only the
    value. Texts in the header keep tabs out. Of several labels, those are given
    whose probabilities are above `threshold`.
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
    guids = [e.guid for e in examples]
    rows = task_examples.share_rows(guids, kind.labels, shares)
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
    join = kind.options.label_separator.join
    labels = (e.label for e in examples)
    gold = [join(x) if isinstance(x, tuple) else str(x) for x in labels]
    texts = [e.texts for e in examples]
    return task_examples.labelled_rows(predicted, gold, texts, names)


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
