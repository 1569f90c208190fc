"""Confusion matrices, counts of labels, the picture."""

import pathlib

import numpy as np
import pytest

from data.finetuning import examples as task_examples
from data.finetuning.classifier import reports
from data.finetuning.classifier import sets as classifier_sets
from data.finetuning.examples import BadRows
from data.finetuning.options import ClassifierDataOptions


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


def test_one_label_alone_has_the_numbers_of_its_rows():
    labels = np.array([[1], [1], [0], [0], [0]], np.float32)
    guesses = np.array([[1], [0], [0], [0], [0]])
    text = reports.class_report(labels, guesses, ["toxic"])
    lines = [line.split() for line in text.splitlines() if line.strip()]
    assert lines[1] == ["toxic", "1.0000", "0.5000", "0.6667", "2"]
    assert reports.class_report(0 * labels, 0 * guesses, ["toxic"])


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


def build(name, folder="", **kwargs):
    options = ClassifierDataOptions(name, str(folder), **kwargs)
    return classifier_sets.open_set(options)


def test_multi_label_arrays_and_rows(tmp_path):
    (tmp_path / "train.tsv").write_text("text\tlabels\na\tp|q\nb\t\nc\tq\n")
    task = build("tsv", tmp_path, head="multi_label")
    examples = task.read("train", BadRows())
    assert task.label_array(examples).tolist() == [[1, 1], [0, 0], [0, 1]]
    logits = np.array([[1.0, 2.0], [-1.0, -1.0], [3.0, -3.0]])
    rows = reports.prediction_rows(task, examples, logits)
    assert [r[1] for r in rows] == ["prediction", "p|q", "", "p"]
    assert rows[3][2:] == ["0.952574", "0.047426"]
    metrics = task.evaluate(logits, task.label_array(examples))
    assert metrics["exact_match"] == pytest.approx(2 / 3)
    assert metrics["micro_f1"] == pytest.approx(2 * 2 / (2 * 2 + 1 + 1))


def test_submissions_hold_names_and_clipped_scores(tmp_path):
    header = "index\tsentence1\tsentence2"
    (tmp_path / "test.tsv").write_text(f"{header}\n8\ta\tb\n3\tc\td\n")
    rte = build("rte", tmp_path)
    examples = rte.read("test", BadRows(), with_labels=False)
    rows = reports.submission_rows(
        rte, examples, np.array([[0.1, 0.2], [2.0, 1.0]])
    )
    assert rows == [
        ["index", "prediction"],
        ["8", "not_entailment"],
        ["3", "entailment"],
    ]
    sts = build("sts-b", tmp_path)
    rows = reports.submission_rows(sts, examples, np.array([7.0, -1]))
    assert [r[1] for r in rows[1:]] == ["5.000", "0.000"]
    path = task_examples.write_tsv(f"{tmp_path}/x.tsv", [["a\tb", "c\n"]])
    assert pathlib.Path(path).read_text() == "a b\tc \n"
