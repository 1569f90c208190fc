"""Symbols by their counts, and lists of them."""

import gzip
import json

from data.text import units, vocabulary_counts
from data.text.lm_vocabulary import SymbolVocabulary


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
        counts = vocabulary_counts.count(
            text, unit, kwargs.get("lower_case", True), False
        )
        special = list(kwargs.get("special", []))
        if case["add_eos"] and not special:
            special = [units.EOS]
        ordered = vocabulary_counts.by_count(
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
    characters = vocabulary_counts.read_list(str(path), "char")
    assert characters == ["<unk>", "a", " ", "\u3000", "\u00a0", "\t", "b"]
    vocabulary = SymbolVocabulary("char", characters, "newline")
    assert vocabulary.encode("a\u3000b ").tolist() == [1, 3, 6, 2]
    assert vocabulary_counts.read_list(str(path)) == [
        "<unk>",
        "a",
        "3",
        "2",
        "b",
    ]
