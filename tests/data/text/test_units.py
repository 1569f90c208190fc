"""Words that stand for line ends, and settings that no vocabulary has."""

import pytest

from common.errors import UserError
from data.text import units
from data.text.lm_vocabulary import SymbolVocabulary


@pytest.mark.parametrize(
    "line_end, text, wanted",
    [
        ("eos", "a\n\nb", "a <eos>  <eos> b"),
        ("mark", "a\nb\n", "a <S> b <S> "),
        ("marks", "a\nb\n", "<S> a <S> <S> b <S>"),
        ("marks", "a\nb", "<S> a <S> <S> b"),
        ("marks", "", ""),
        ("newline", "a\nb", "a\nb"),
        ("none", "a\nb", "a\nb"),
    ],
)
def test_a_word_stands_for_each_lines_end(line_end, text, wanted):
    assert units.mark_lines(text, line_end) == wanted


@pytest.mark.parametrize(
    "settings, message",
    [
        (("letter", "eos", False, "unk"), "--unit must be one of word, char"),
        (("char", "eos", False, "unk"), "newline, none with --unit=char"),
        (("word", "eos", False, "skip"), "--unknown must be one of unk, er"),
        (("byte", "none", True, "unk"), "--lower_case is not for --unit=byte$"),
        (("piece", "eos", True, "unk"), "the SentencePiece file says it"),
    ],
)
def test_settings_that_no_vocabulary_has(settings, message):
    with pytest.raises(UserError, match=message):
        units.check_settings(*settings)


def test_a_symbol_without_a_number_is_named():
    error = units.UnknownSymbolError("dög", "f: line 2: ")
    assert error.symbol == "dög"
    assert str(error).startswith("f: line 2: 'dög' is not in the vocabulary")


@pytest.mark.parametrize(
    "arguments,message",
    [
        (("word", ("a", "b"), "eos"), "symbol <eos> is missing"),
        (("word", ("a", "a"), "none"), "'a' 2 times"),
        (("word", ("a b",), "none"), "cannot have the symbol 'a b'"),
        (("byte", ("256",), "none"), "cannot have the symbol '256'"),
        (("char", ("ab",), "none"), "cannot have the symbol 'ab'"),
        (("word", (), "none"), "without symbols"),
        (("word", ("a",), "newline"), "--line_end must be one of"),
        (("sound", ("a",), "none"), "--unit must be one of"),
    ],
)
def test_what_no_vocabulary_can_be(arguments, message):
    with pytest.raises(UserError, match=message):
        SymbolVocabulary(*arguments)
