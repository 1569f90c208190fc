"""Confusion matrices, counts of labels, the picture."""

import numpy as np

from data.finetuning.classifier import reports


def test_rows_are_labels_and_columns_guesses():
    labels, guesses = np.array([0, 2, 2, 1, 2]), np.array([0, 1, 2, 1, 1])
    matrix = reports.confusion_matrix(labels, guesses, 3)
    assert matrix.tolist() == [[1, 0, 0], [0, 1, 0], [0, 2, 1]]
    rows = reports.table(matrix, "abc", "abc")
    assert rows[0] == ["label", "a", "b", "c"]
    assert rows[3] == ["c", "0", "2", "1"]
    text = reports.class_report(labels, guesses, ["a", "b", "c"])
    line = next(x for x in text.splitlines() if x.split()[:1] == ["c"])
    assert line.split() == ["c", "1.0000", "0.3333", "0.5000", "3"]
    assert reports.picture(matrix, "abc", "abc").startswith(b"\x89PNG")


def test_counts_of_several_labels():
    labels = np.array([[1, 0], [1, 1], [0, 0]], np.float32)
    guesses = np.array([[1, 1], [0, 1], [0, 0]])
    # right, too many, missed, rightly left out
    assert reports.label_counts(labels, guesses).tolist() == [
        [1, 0, 1, 1],
        [1, 1, 0, 1],
    ]
