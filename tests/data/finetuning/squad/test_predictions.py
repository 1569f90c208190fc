"""Beams to answers: validity rules, ties, order, the last token."""

import math

import numpy as np

from data.finetuning.options import SquadDataOptions
from data.finetuning.squad import predictions as squad_predictions
from data.finetuning.squad.predictions import (
    WindowBeams,
    WindowText,
)

PARAGRAPH = "ab cd ef"
TEXT = WindowText([0, 3, 6], [1, 4, 7], [True, True, True])


def answer(beams, options=None, text=TEXT, paragraph=PARAGRAPH):
    return squad_predictions.answer_question(
        paragraph, [(text, beams)], options or SquadDataOptions()
    )


def test_last_token_can_be_answered_unless_asked():
    beams = WindowBeams([-0.1], [2], [-0.2], [2], 0.5)
    assert answer(beams)[0][0]["text"] == "ef"
    old = answer(beams, SquadDataOptions(original_last_token_bug=True))
    assert old[0] == [
        {
            "text": "",
            "probability": 1.0,
            "start_log_prob": -1e6,
            "end_log_prob": -1e6,
        }
    ]


def test_probabilities_have_the_same_bits_on_every_python(monkeypatch):
    """From Python 3.12 on `sum` carries the rounding errors of floats along."""
    monkeypatch.setattr(squad_predictions, "sum", math.fsum, raising=False)
    scores = [0.0, -0.7, -1.3, -2.1]
    exps = [math.exp(s) for s in scores]
    total = exps[0] + exps[1] + exps[2] + exps[3]
    assert total != math.fsum(exps)
    assert squad_predictions.softmax(scores) == [e / total for e in exps]


def test_ends_before_the_start_and_long_spans_are_left_out():
    # Two starts with two ends each, start-major.
    beams = WindowBeams(
        [-1.0, -2.0], [1, 0], [-0.1, -0.2, -0.3, -0.4], [0, 1, 2, 1], 0.0
    )
    texts = [
        a["text"]
        for a in answer(beams, SquadDataOptions(max_answer_length=2))[0]
    ]
    assert texts == ["cd", "ab cd"]


def test_equal_texts_once_and_equal_scores_in_order():
    text = WindowText([0, 3, 0], [1, 4, 1], [True] * 3)
    beams = WindowBeams([-1.0] * 3, [1, 0, 2], [-1.0] * 3, [1, 0, 2], 0.0)
    result, _ = answer(beams, text=text)
    assert [a["text"] for a in result] == ["cd", "ab"]
    assert [a["probability"] for a in result] == [0.5, 0.5]


def test_null_odds_are_the_smallest_and_starts_need_max_context():
    window = WindowBeams([-0.1], [0], [-0.1], [0], 2.0)
    hidden = WindowText([0, 3, 6], [1, 4, 7], [False, True, True])
    nbest, odds = squad_predictions.answer_question(
        PARAGRAPH,
        [(hidden, window), (TEXT, WindowBeams([-5.0], [1], [-5.0], [1], -3.0))],
        SquadDataOptions(),
    )
    assert odds == -3.0
    assert [a["text"] for a in nbest] == ["cd"]
    assert squad_predictions.final_answers({"q": nbest}, {"q": odds}, -4.0) == {
        "q": ""
    }


def test_null_odds_of_independent_logits_are_against_the_best_answer():
    """BERT's: the least score of "no answer", less that of the answer, which
    may be of another window."""
    windows = [
        # Of CLS -3, of the best span -4, which may not answer, and of "cd" -5.
        (
            WindowText([0, 3, 6], [1, 4, 7], [False, True, True]),
            WindowBeams([-1.5, -2.0], [0, 1], [-2.5, -3.0], [0, 1], 1.0),
        ),
        # Of CLS -1, of the answer -2.
        (TEXT, WindowBeams([-0.5], [2], [-1.5], [2], 1.0)),
    ]
    options = SquadDataOptions()
    nbest, odds = squad_predictions.answer_question(
        PARAGRAPH, windows, options, independent=True
    )
    assert [a["text"] for a in nbest] == ["ef", "cd"] and odds == -3.0 - -2.0
    assert squad_predictions.answer_question(
        PARAGRAPH, windows[:1], options, independent=True
    )[1] == (-3.0 - -5.0)
    hidden = WindowText([0], [1], [False])
    for windows in ([], [(hidden, WindowBeams([-1.0], [0], [-1.0], [0], 0.0))]):
        _, odds = squad_predictions.answer_question(
            PARAGRAPH, windows, options, independent=True
        )
        assert odds == squad_predictions.MAX_NULL_ODDS


def test_the_sum_of_both_scores_orders_answers():
    # The best start has bad ends.
    beams = WindowBeams([-0.1, -0.5], [0, 1], [-3.0, -0.2], [0, 1], 0.0)
    nbest, _ = answer(beams)
    assert [a["text"] for a in nbest] == ["cd", "ab"]
    assert nbest[0]["start_log_prob"] == -0.5


def test_the_order_of_windows_does_not_matter_to_null_odds():
    for odds in ([-3.0, 2.0], [2.0, -3.0], [-3.0, -3.0]):
        windows = [
            (TEXT, WindowBeams([-0.1], [0], [-0.1], [0], value))
            for value in odds
        ]
        found = squad_predictions.answer_question(
            PARAGRAPH, windows, SquadDataOptions()
        )
        assert found[1] == -3.0


def test_only_null_odds_above_the_threshold_leave_a_question_empty():
    nbest = {q: [{"text": q}] for q in ("below", "at", "above")}
    odds = {"below": -1.0, "at": 0.5, "above": 0.75}
    assert squad_predictions.final_answers(nbest, odds, 0.5) == {
        "below": "below",
        "at": "at",
        "above": "",
    }
    assert "" not in squad_predictions.final_answers(nbest, odds).values()


def test_max_context_rows():
    # Spans 0..9 and 5..14: token 7 has 2 tokens on its short side in both.
    spans = [(0, 10), (5, 10)]
    first = squad_predictions.max_context(spans, 0)
    second = squad_predictions.max_context(spans, 1)
    np.testing.assert_array_equal(np.flatnonzero(first), np.arange(8))
    np.testing.assert_array_equal(np.flatnonzero(second), np.arange(3, 10))
    np.testing.assert_array_equal(first[5:], ~second[:5])
