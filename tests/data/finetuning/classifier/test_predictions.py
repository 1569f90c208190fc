"""Rows of submissions: names of classes, values within their bounds."""

import pathlib

import numpy as np
import pytest

from data.finetuning import examples as task_examples
from data.finetuning.classifier import predictions
from data.finetuning.classifier import sets as classifier_sets
from data.finetuning.examples import BadRows
from data.finetuning.options import ClassifierDataOptions


def build(name, folder="", **kwargs):
    options = ClassifierDataOptions(name, str(folder), **kwargs)
    return classifier_sets.open_set(options)


def test_multi_label_arrays_and_rows(tmp_path):
    (tmp_path / "train.tsv").write_text("text\tlabels\na\tp|q\nb\t\nc\tq\n")
    task = build("tsv", tmp_path, head="multi_label")
    examples = task.read("train", BadRows())
    assert task.label_array(examples).tolist() == [[1, 1], [0, 0], [0, 1]]
    logits = np.array([[1.0, 2.0], [-1.0, -1.0], [3.0, -3.0]])
    rows = predictions.prediction_rows(task, examples, logits)
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
    rows = predictions.submission_rows(
        rte, examples, np.array([[0.1, 0.2], [2.0, 1.0]])
    )
    assert rows == [
        ["index", "prediction"],
        ["8", "not_entailment"],
        ["3", "entailment"],
    ]
    sts = build("sts-b", tmp_path)
    rows = predictions.submission_rows(sts, examples, np.array([7.0, -1]))
    assert [r[1] for r in rows[1:]] == ["5.000", "0.000"]
    path = task_examples.write_tsv(f"{tmp_path}/x.tsv", [["a\tb", "c\n"]])
    assert pathlib.Path(path).read_text() == "a b\tc \n"
