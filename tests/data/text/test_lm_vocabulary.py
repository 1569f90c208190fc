"""Vocabularies: every unit there and back, files."""

import numpy as np
import pytest

from common.errors import UserError
from data.text import lm_vocabulary, units
from data.text.lm_vocabulary import (
    PieceVocabulary,
    SymbolVocabulary,
    UnknownSymbolError,
)

WORDS = ("<eos>", "<S>", "<unk>", "the", "cat", "sat")


@pytest.mark.parametrize(
    "line_end,text,ids,decoded",
    [
        ("eos", "the cat\n\n sat dog", [3, 4, 0, 0, 5, 2], None),
        ("none", "the cat\nsat", [3, 4, 5], "the cat sat"),
        ("mark", "the\ncat\n", [3, 1, 4, 1], None),
        ("marks", "the cat\nsat\n", [1, 3, 4, 1, 1, 5, 1], None),
        ("marks", "the cat", [1, 3, 4], None),
    ],
)
def test_lines_of_words(line_end, text, ids, decoded):
    vocabulary = SymbolVocabulary("word", WORDS, line_end)
    encoded = vocabulary.encode(text)
    assert encoded.dtype == np.int32 and encoded.tolist() == ids
    wanted = decoded or text.replace(" sat dog", "sat <unk>")
    assert vocabulary.decode(ids) == wanted
    assert vocabulary.unk_id == 2 and vocabulary.size == 6


def test_unknown_words_follow_the_policy():
    strict = SymbolVocabulary("word", WORDS, "eos", unknown="error")
    with pytest.raises(UnknownSymbolError, match="'dog' is not in") as info:
        strict.encode("the dog")
    assert info.value.symbol == "dog" and strict.unk_id is None
    upper = SymbolVocabulary("word", ("a", "<UNK>", "<eos>"), "eos")
    assert upper.encode("b a\n").tolist() == [1, 0, 2]
    letters = SymbolVocabulary("char", ("a", "b"), "none")
    with pytest.raises(UnknownSymbolError, match="'c'"):
        letters.encode("abc")
    lower = SymbolVocabulary("word", ("straße", "i"), "none", True)
    assert lower.encode("STRAßE I").tolist() == [0, 1]


def test_bytes_and_characters_there_and_back():
    text = "naïve 東京\n\x00end"
    whole = SymbolVocabulary("byte", map(str, range(256)), "newline")
    assert whole.encode(text).tolist() == list(text.encode())
    assert whole.decode(whole.encode(text)) == text
    assert whole.eos_id == 10
    letters = SymbolVocabulary("char", sorted(set(text)), "newline")
    assert letters.decode(letters.encode(text)) == text
    assert letters.symbols[letters.eos_id] == "\n"


def test_pieces(spiece_model):
    vocabulary = PieceVocabulary(spiece_model)
    tokenizer = vocabulary.tokenizer
    text = "The tower by the river.\nA lamp"
    first, second = text.split("\n")
    wanted = [*tokenizer.encode(first), vocabulary.eos_id]
    wanted += tokenizer.encode(second)
    assert vocabulary.encode(text).tolist() == wanted
    assert vocabulary.decode(wanted).split("\n")[1] == second
    assert vocabulary.symbol(wanted[0]) == tokenizer.id_to_piece(wanted[0])
    plain = PieceVocabulary(spiece_model, "none", tokenizer)
    assert plain.eos_id is None and plain.sha256 != vocabulary.sha256
    assert plain.encode("a\n").tolist() == tokenizer.encode("a")


def test_files_keep_order_and_settings(tmp_path):
    path = str(tmp_path / "vocabulary.json")
    for vocabulary in (
        SymbolVocabulary("word", WORDS, "marks", True),
        SymbolVocabulary("char", "a\n \u2028b", "newline"),
        SymbolVocabulary("byte", ("32", "10", "7"), "none", unknown="error"),
    ):
        vocabulary.save(path)
        loaded = lm_vocabulary.load(path)
        assert loaded.symbols == vocabulary.symbols
        assert loaded.sha256 == vocabulary.sha256
        assert loaded.line_end == vocabulary.line_end
        assert loaded.unk_id == vocabulary.unk_id
    swapped = SymbolVocabulary("word", WORDS[::-1], "marks", True)
    other = SymbolVocabulary("word", WORDS, "marks", False)
    wanted = SymbolVocabulary("word", WORDS, "marks", True)
    assert len({v.sha256 for v in (swapped, other, wanted)}) == 3
    with pytest.raises(UserError, match="another vocabulary than the one of"):
        swapped.require(wanted.sha256, "the checkpoint")
    text = (tmp_path / "vocabulary.json").read_text()
    (tmp_path / "bad.json").write_text(text.replace('"7"', '"8"'))
    with pytest.raises(UserError, match="bad.json is damaged"):
        lm_vocabulary.load(str(tmp_path / "bad.json"))
    (tmp_path / "words.txt").write_text("\n".join(WORDS) + "\n")
    assert units.read_list(str(tmp_path / "words.txt")) == list(WORDS)
