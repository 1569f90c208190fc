"""A line of the file, an answer: numbers, blank lines, ends, marks."""

import math

import numpy as np
import pytest

from common.errors import UserError
from data.text.lm_vocabulary import SymbolVocabulary
from serving.generation.causal_scoring import CausalScorer
from serving.generation.scored_lines import read_lines, score_lines
from tests.serving.generation.asked_models import asked


def test_every_line_has_its_row(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_bytes(b"\xef\xbb\xbfa b\r\n\r\n  \nb\n")
    assert read_lines(str(path)) == ["a b", "", "  ", "b"]
    path.write_bytes(b"\n \n")
    with pytest.raises(UserError, match="holds no line to score"):
        read_lines(str(path))
    path.write_bytes(b"a\rb\r")
    with pytest.raises(UserError, match="lines.txt:1: lines end with CR"):
        read_lines(str(path))


@pytest.mark.long
@pytest.mark.parametrize(
    "line_end, words, open_blank",
    [
        ("eos", ["<eos>", "a", "b", "<unk>"], ["<eos>"]),
        ("marks", ["<S>", "a", "b", "<unk>"], ["<S>"]),
        ("none", ["a", "b", "c", "<unk>"], []),
    ],
)
def test_two_rules_for_the_end_of_a_line(line_end, words, open_blank):
    lm = asked(line_end, words)
    scorer = CausalScorer(lm.model, 4, 3)
    lines = ["a b", "", "b a a b a"]
    closed, opened = (
        score_lines(lm.vocabulary, scorer, lines, end) for end in (True, False)
    )
    end = [words[0]] if open_blank else []
    for number, (whole, part) in enumerate(zip(closed, opened, strict=True), 1):
        assert (whole["line"], part["line"]) == (number, number)
        assert whole["text"] == part["text"] == lines[number - 1]
        assert whole["tokens"] == part["tokens"] + end or not lines[number - 1]
        count = len(part["log_probs"])
        assert whole["log_probs"][:count] == pytest.approx(
            part["log_probs"], abs=1e-5
        )
        for found in (whole, part):
            assert found["num_scored"] == len(found["log_probs"])
            assert found["num_scored"] == max(found["num_tokens"] - 1, 0)
            total = sum(found["log_probs"])
            assert found["log_prob"] == pytest.approx(total, abs=1e-4)
        assert whole["line_end_scored"] == bool(end)
        assert not part["line_end_scored"]
    assert opened[1]["num_scored"] == 0 and opened[1]["perplexity"] is None
    assert closed[1]["tokens"] == open_blank


def test_a_text_that_is_all_but_impossible_has_a_perplexity():
    """exp overflows above 709.78 nats per token, and JSON has no infinity."""
    words = SymbolVocabulary("word", ["<eos>", "a", "<unk>"], "eos")

    class Scorer:
        def score(self, rows):
            return [np.full(len(row) - 1, -800.0, np.float32) for row in rows]

    (found,) = score_lines(words, Scorer(), ["a a"])
    assert found["num_scored"] == 3
    assert found["perplexity"] == pytest.approx(math.exp(700.0))


def test_a_character_model_sees_no_carriage_return(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_bytes(b"ab\r\nb\r\n")
    vocabulary = SymbolVocabulary(
        "char", ["\n", "a", "b", "\r"], "newline", unknown="error"
    )
    scorer = CausalScorer(asked().model, 4, 2)
    found = score_lines(vocabulary, scorer, read_lines(str(path)))
    assert [x["tokens"] for x in found] == [["a", "b", "\\n"], ["b", "\\n"]]


def test_a_symbol_that_is_not_known_is_named_with_its_line():
    """The line of a file was not said."""
    vocabulary = SymbolVocabulary("char", ["\n", "a"], "newline")
    with pytest.raises(UserError, match="^x.txt:3: 'b' is not in the vocab"):
        score_lines(vocabulary, None, ["a", "", "ab"], path="x.txt")
