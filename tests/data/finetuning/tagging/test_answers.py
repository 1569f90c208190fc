"""Predictions in the layout of the input."""

import json

import numpy as np
import pytest

from data.finetuning.squad.features import TokenizedParagraph
from data.finetuning.tagging import answers as tagging_answers
from data.finetuning.tagging.examples import TaggedText
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


LABELS = ("O", "B-X", "I-X", "B-Y", "I-Y")
SURE = 12.0


def member(example, spans, tags, sure=SURE, labels=LABELS):
    """A model with a piece per span, sure of a tag each."""
    array = np.array(spans, np.int32)
    pieces = TokenizedParagraph(
        np.zeros(len(spans), np.int32), array[:, 0], array[:, 1]
    )
    scores = np.zeros((len(spans), len(labels)), np.float32)
    scores[np.arange(len(spans)), [labels.index(t) for t in tags]] = sure
    answers = tagging_answers.answer_pieces(
        [example], [pieces], [scores], labels
    )
    return tagging_answers.Member([example], [pieces], [scores], answers)


def spans_text(text):
    return TaggedText("0", text, (), None, False, "a:1")


def test_spans_are_cut_where_any_model_cuts():
    example = spans_text("New York is big")
    #                     0123456789
    whole = member(example, [(0, 8), (8, 11), (11, 15)], ["B-X", "O", "O"])
    parts = member(
        example,
        [(0, 3), (3, 8), (8, 11), (11, 15)],
        ["B-X", "I-X", "O", "O"],
    )
    assert whole.answers.spans == [[(0, 8, "X")]]
    for members in ([whole, parts], [parts, whole], [whole] * 2, [parts] * 2):
        joined = tagging_answers.combine(members, [1.0, 1.0], LABELS)
        assert joined.spans == [[(0, 8, "X")]]
        assert joined.confidence[0][0] > 0.99
    # One says York alone, louder: the other's New is B-X only there.
    york = member(
        example, [(0, 3), (3, 8), (8, 15)], ["O", "B-Y", "O"], sure=SURE
    )
    assert tagging_answers.combine([whole, york], [1.0, 3.0], LABELS).spans == [
        [(4, 8, "Y")]
    ]
    assert tagging_answers.combine([whole, york], [3.0, 1.0], LABELS).spans == [
        [(0, 8, "X")]
    ]
    assert tagging_answers.combine([york], [1.0], LABELS) is york.answers


@pytest.mark.parametrize("last, only", ["ES", "LU"])
def test_a_piece_that_is_cut_ends_one_span(last, only):
    """Its parts are together what the piece says alone."""
    labels = ("O", "B-X", "I-X", f"{last}-X", f"{only}-X")
    example = spans_text("New York is big")
    parts = [(0, 2), (2, 3), (3, 6), (6, 8), (8, 11), (11, 15)]
    unsure = member(example, parts, ["O"] * 6, 0.0, labels)
    for spans, tags, wanted in (
        ([(0, 8), (8, 15)], [f"{only}-X", "O"], [(0, 8, "X")]),
        ([(0, 3), (3, 8), (8, 15)], ["B-X", f"{last}-X", "O"], [(0, 8, "X")]),
        (
            [(0, 3), (3, 8), (8, 15)],
            [f"{only}-X", f"{only}-X", "O"],
            [(0, 3, "X"), (4, 8, "X")],
        ),
    ):
        whole = member(example, spans, tags, labels=labels)
        assert whole.answers.spans == [wanted]
        joined = tagging_answers.combine([whole, unsure], [9.0, 1.0], labels)
        assert joined.spans == [wanted]


def test_tokens_have_the_mean_of_the_pieces_that_tell_them():
    example = TaggedText("0", "ab cd", ((0, 2), (3, 5)), None, True, "a:1")
    one = member(example, [(0, 5)], ["B-X"], sure=1.0)
    two = member(example, [(0, 2), (2, 5)], ["O", "B-Y"], sure=2.0)
    found = tagging_answers.combine([one, two], [1.0, 1.0], LABELS)
    assert found.tags == [["O", "B-Y"]]
    shares = [np.exp(x) / (np.exp(x) + 4) for x in (1.0, 2.0)]
    rest = (1 - shares[0]) / 4
    assert found.confidence[0][0] == pytest.approx((shares[1] + rest) / 2)
    assert tagging_answers.combine([one, two], [9.0, 1.0], LABELS).tags == [
        ["B-X", "B-X"]
    ]
