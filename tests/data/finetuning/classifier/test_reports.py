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


def test_labels_are_text_and_no_formula():
    names = ["$_$", "a$b$", "\\$", "--1"]
    picture = reports.picture(np.eye(4, dtype=int), names, names)
    assert picture.startswith(b"\x89PNG")


def test_many_classes_stay_small():
    labels = np.array([7, 7, 4000, 4999, 4999])
    guesses = np.array([7, 4000, 4000, 8, 8])
    names = [f"c{i}" for i in range(5000)]
    rows, matrix, shown = reports.confusion(labels, guesses, names)
    assert rows[1:] == [
        ["c7", "c7", "1"],
        ["c7", "c4000", "1"],
        ["c4000", "c4000", "1"],
        ["c4999", "c8", "2"],
    ]
    assert len(shown) == len(matrix) == reports.MOST_CLASSES
    assert {"c7", "c8", "c4000", "c4999"} <= {*shown}
    assert matrix[shown.index("c4999"), shown.index("c8")] == 2
    assert matrix.sum() == len(labels)
