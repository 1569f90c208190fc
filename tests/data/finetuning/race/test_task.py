"""Accuracy by level, rows of predictions and what examples are known by."""

import dataclasses
import types

import numpy as np
import pytest
import tensorflow as tf

from data.finetuning.race import task
from data.finetuning.race.examples import LEVELS, RaceExample
from data.finetuning.task import Split

EXAMPLES = [
    RaceExample(f"{level}/1/{i}", "Text.", ("a", "b", "c", "d"), label, level)
    for i, (level, label) in enumerate(
        [("middle", 2), ("high", 0), ("high", 3), ("middle", 1), ("high", 1)]
    )
]
GUESSES = [2, 0, 1, 1, 2]  # right: middle 2 of 2, high 1 of 3
LOGITS = 3.0 * np.eye(4)[GUESSES]


def test_accuracy_by_level():
    assert task.evaluate(EXAMPLES, LOGITS) == pytest.approx(
        {"accuracy": 0.6, "accuracy_middle": 1.0, "accuracy_high": 1 / 3}
    )
    high = [e for e in EXAMPLES if e.level == "high"]
    assert set(task.evaluate(high, LOGITS[:3])) == {"accuracy", "accuracy_high"}


def test_only_levels_that_are_evaluated_pick_the_best_step():
    def names(*examples):
        splits = {"dev": Split("dev", examples, None)} if examples else {}
        folder = types.SimpleNamespace(levels=LEVELS, evals=splits)
        return task.RaceTask.metric_names.fget(folder)

    both = ("accuracy", "accuracy_middle", "accuracy_high")
    assert names() == both and names(*EXAMPLES) == both
    assert names(*EXAMPLES[1:3]) == ("accuracy", "accuracy_high")


def test_the_test_set_of_a_bucket_is_predicted():
    data = types.SimpleNamespace(data_dir="ram://race")
    race = types.SimpleNamespace(data=data, eval_names=lambda: ("dev",))
    assert task.RaceTask.predict_names(race) == ("dev",)
    tf.io.gfile.makedirs("ram://race/test")
    assert task.RaceTask.predict_names(race) == ("test",)


def test_rows_have_letters_and_probabilities():
    rows = task.prediction_rows(EXAMPLES, LOGITS)
    assert rows[0] == ["guid", "prediction", *(f"p({a})" for a in "ABCD")]
    assert [row[1] for row in rows[1:]] == ["C", "A", "B", "B", "C"]
    share = np.exp(3.0) / (np.exp(3.0) + 3.0)
    assert float(rows[1][4]) == pytest.approx(share, abs=1e-6)
    labelled = task.labelled_rows(EXAMPLES, LOGITS)
    assert [row[1] for row in labelled[1:]] == ["C", "A", "D", "B", "B"]
    assert labelled[1][2:4] == rows[1][1:3]
    assert labelled[1][-5:] == ["Text.", "a", "b", "c", "d"]


def test_the_hash_is_of_texts_and_answers():
    known = task.hash_examples(EXAMPLES)
    assert task.hash_examples(EXAMPLES[::-1]) != known
    for change in ({"label": 0}, {"article": "Text"}, {"options": ("a",) * 4}):
        other = [dataclasses.replace(EXAMPLES[0], **change), *EXAMPLES[1:]]
        assert task.hash_examples(other) != known, change
