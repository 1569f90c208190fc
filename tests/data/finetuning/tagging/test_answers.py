"""Predictions in the layout of the input."""

import json

from data.finetuning.tagging import answers as tagging_answers
from tests.data.finetuning.tagging.tagged_texts import (
    spans_example,
    words_example,
)


def test_predictions_keep_the_layout():
    example = words_example(["a", "b"], ["X", "Y"])
    answers = tagging_answers.Answers([["X", "X"]], [[]], [[0.5, 0.5]])
    text = tagging_answers.prediction_text([example], answers)
    assert text == "a\tX\tX\nb\tY\tX\n\n"
    example = spans_example("ab c", (0, 2, "X"))
    answers = tagging_answers.Answers([[]], [[(3, 4, "X")]], [[0.25]])
    row = json.loads(tagging_answers.prediction_text([example], answers))
    assert row["spans"] == [
        {"start": 3, "end": 4, "label": "X", "confidence": 0.25}
    ]
    assert row["gold"] == [{"start": 0, "end": 2, "label": "X"}]
