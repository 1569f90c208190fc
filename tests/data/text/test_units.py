"""Words that stand for line ends, and settings that no vocabulary has."""

import gzip
import json

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
    assert "--unknown=unk" in str(error)
    # Bytes have no <unk>, whatever --unknown says.
    byte = str(units.UnknownSymbolError("byte 122"))
    assert "--vocab_from=fixed" in byte and "--unknown" not in byte


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


def test_order_and_limits_are_the_originals(golden):
    with gzip.open(golden / "txl" / "data" / "pipeline.json.gz") as f:
        cases = json.load(f)["vocab"]
    checked = 0
    for case in cases.values():
        kwargs = case["kwargs"]
        delimiter = kwargs.get("delimiter")
        if delimiter not in (None, ""):
            continue  # other separators of words: not ours
        unit = "word" if delimiter is None else "char"
        lines = [x.strip() if unit == "word" else x for x in case["lines"]]
        if unit == "char":
            lines = [x.strip() for x in case["lines"]]
        text = "\n".join(lines)
        counts = units.count(text, unit, kwargs.get("lower_case", True), False)
        special = list(kwargs.get("special", []))
        if case["add_eos"] and not special:
            special = [units.EOS]
        ordered = units.by_count(
            counts,
            special,
            kwargs.get("min_freq", 0),
            kwargs.get("max_size", 0),
        )
        assert ordered[: len(case["idx2sym"])] == case["idx2sym"]
        assert len(ordered) == len(case["idx2sym"])
        checked += 1
    assert checked >= 3


def test_white_space_of_a_list_of_characters_is_a_symbol(tmp_path):
    path = tmp_path / "characters.txt"
    path.write_text("<unk> 9\na 5\n \n\u3000\t3\n\n\u00a0\n\t 2\nb\n")
    characters = units.read_list(str(path), "char")
    assert characters == ["<unk>", "a", " ", "\u3000", "\u00a0", "\t", "b"]
    vocabulary = SymbolVocabulary("char", characters, "newline")
    assert vocabulary.encode("a\u3000b ").tolist() == [1, 3, 6, 2]
    assert units.read_list(str(path)) == [
        "<unk>",
        "a",
        "3",
        "2",
        "b",
    ]
