"""Chunks are counted whole; a baseline."""

import pytest

from data.finetuning.tagging import metrics
from tests.data.finetuning.tagging.tagged_texts import (
    spans_example,
    words_example,
)


def test_chunks_are_counted_whole():
    gold = [["B-A", "I-A", "O", "B-B"], ["O", "B-A"]]
    guess = [["B-A", "O", "O", "B-B"], ["O", "B-A"]]
    scores = metrics.evaluate(gold, guess, True)
    # Two of three chunks are right, of three that were told.
    assert scores["f1"] == pytest.approx(2 / 3)
    assert scores["accuracy"] == pytest.approx(5 / 6)
    assert "B" in metrics.report(gold, guess, True)
    single = metrics.evaluate([["N", "V"]], [["N", "N"]], False)
    assert single == pytest.approx({"accuracy": 0.5, "f1": (2 / 3) / 2})
    assert metrics.names_chunks(("O", "B-A", "I-A"))
    assert not metrics.names_chunks(("O",))
    assert not metrics.names_chunks(("NOUN", "B-A"))


def test_texts_without_a_chunk_have_a_report():
    gold = [["O", "O"], ["O"]]
    assert "no chunk" in metrics.report(gold, gold, True)
    scores = metrics.evaluate(gold, gold, True)
    assert scores["accuracy"] == 1.0 and scores["f1"] == 0.0
    told = metrics.report(gold, [["O", "B-A"], ["O"]], True)
    assert told.splitlines()[2].split()[0] == "A"


@pytest.mark.parametrize(
    "gold, guess, wanted",
    [
        ("U-PER U-PER", "B-PER L-PER", (0.0, 0.0, 0.0)),
        ("B-PER L-PER U-PER O", "O O U-PER O", (1.0, 0.5, 2 / 3)),
        ("B-PER I-PER L-PER", "B-PER I-PER L-PER", (1.0, 1.0, 1.0)),
    ],
)
def test_tags_of_last_and_only_words_bound_chunks(gold, guess, wanted):
    rows = [gold.split()], [guess.split()]
    values = metrics.evaluate(*rows, chunks=True)
    scores = [values[n] for n in ("precision", "recall", "f1")]
    assert scores == pytest.approx(list(wanted))
    line = metrics.report(*rows, chunks=True).splitlines()[2].split()
    assert line[0] == "PER"
    assert [float(x) for x in line[1:4]] == pytest.approx(wanted, abs=1e-4)


def test_the_baseline_tells_what_a_word_most_often_is():
    train = [
        words_example(["a", "b", "a"], ["X", "Y", "X"]),
        words_example(["a", "c"], ["Y", "Y"]),
    ]
    baseline = metrics.MajorityBaseline(train)
    assert baseline.guess(words_example(["a", "z"], ["X", "X"])) == ["X", "Y"]
    spans = metrics.MajorityBaseline(
        [spans_example("in or New York", (6, 14, "LOC"))]
    )
    asked = spans_example("New York, York")
    assert spans.guess(asked) == [(0, 8, "LOC"), (10, 14, "LOC")]


def test_the_baseline_of_tokens_tells_spans():
    tokens = words_example(
        ["Ada", "King", "x", "Bob", "good"],
        ["B-PER", "E-PER", "O", "S-PER", "ADJ"],
    )
    baseline = metrics.MajorityBaseline([tokens])
    asked = spans_example("Ada King Bob good")
    assert baseline.guess(asked) == [(0, 8, "PER"), (9, 12, "PER")]
