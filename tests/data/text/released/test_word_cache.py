"""Words that are cut once: the pieces are those of whole texts."""

import json
import pathlib

import numpy as np
import pytest

from data.text import opening
from data.text.released import word_cache
from tests.helpers import released

pytest.importorskip("tokenizers")

WORDS = ["the", "river", "boats,", "don't", "2,000", "  ", "\u00a0", "[SEP]x"]
MAKERS = {
    "wordpiece": released.wordpiece_folder,
    "cased wordpiece": lambda f: released.wordpiece_folder(f, uncased=False),
    "bpe": released.byte_level,
    "bpe, a blank before": lambda f: released.byte_level(f, prefix_space=True),
    "bpe, not composed": lambda f: released.byte_level(f, composed=False),
    "unigram": lambda f: released.albert(f, released.USER_DEFINED),
}


@pytest.fixture(scope="module", params=MAKERS)
def path(request, tmp_path_factory):
    return MAKERS[request.param](tmp_path_factory.mktemp("words"))


def texts(seed=0):
    lines = released.random_texts(400, WORDS, seed)
    lines += [*released.ODD, *released.SENTENCE_TEXTS, *released.BPE_PARTS]
    pairs = zip(lines, lines[7:], strict=False)
    return [*lines, *(f"{a} {b}" for a, b in pairs), " a", "a ", " ", ""]


def check(tokenizer, lines):
    whole = tokenizer._cut(lines)
    spans = tokenizer.encode_spans_batch(lines)
    batch = tokenizer.encode_batch(lines)
    for text, wanted, row, ids in zip(lines, whole, spans, batch, strict=True):
        for ours, theirs in zip(row, wanted, strict=True):
            assert ours.dtype == np.int32
            assert ours.tolist() == theirs.tolist(), ascii(text)
        assert ids.dtype == np.int32
        assert ids.tolist() == tokenizer.encode(text), ascii(text)


@pytest.mark.long
def test_pieces_are_those_of_whole_texts(path):
    tokenizer = opening.open_tokenizer(path)
    assert tokenizer._words is not None
    lines = texts()
    check(tokenizer, lines)
    assert len(tokenizer._words._numbers) > 50
    check(tokenizer, lines[::-1])
    assert tokenizer.encode_batch([]) == []
    assert tokenizer.encode_spans_batch([]) == []


@pytest.mark.long
def test_control_characters_move_no_other_words(tmp_path):
    """The package does not count what a table drops at a text's start."""
    path = released.albert(tmp_path, released.USER_DEFINED)
    plain = ["the river", "de boats,", "a\tthe\nriver\r\nboats"]
    lines = ["\x01\x02\x03the", "\x7f\x0e", "[SEP]\x1f\x1f\x1fa", *plain]
    check(opening.open_tokenizer(path), lines)
    check(opening.open_tokenizer(path), lines[::-1])
    assert word_cache.keeps_simple(str.upper)
    assert not word_cache.keeps_simple(lambda char: char.strip("x"))


def test_a_full_cache_is_dropped(path, monkeypatch):
    monkeypatch.setattr(word_cache, "_MOST_WORDS", 40)
    tokenizer = opening.open_tokenizer(path)
    lines = texts(1)
    for first in range(0, len(lines), 9):
        check(tokenizer, lines[first : first + 9])
    monkeypatch.setattr(word_cache, "_MOST_WORDS", 1 << 18)
    monkeypatch.setattr(word_cache, "_MOST_CHARS", 100)
    check(tokenizer, lines[:30])
    assert len(tokenizer._words._numbers) < 400


def test_rules_that_look_beyond_a_word_are_left_to_the_package(tmp_path):
    rules = json.loads(pathlib.Path(released.byte_level(tmp_path)).read_text())
    assert word_cache.word_rules(rules) == (True, False)
    token = rules["added_tokens"][0]
    for change in (
        {"normalizer": {"type": "Lowercase"}},
        {"pre_tokenizer": {"type": "Whitespace"}},
        {"pre_tokenizer": rules["pre_tokenizer"] | {"use_regex": False}},
        {"model": rules["model"] | {"dropout": 0.1}},
        {"model": rules["model"] | {"type": "Unigram"}},
        {"added_tokens": [token | {"rstrip": True}]},
        {"added_tokens": [token | {"single_word": True}]},
        {"added_tokens": [token | {"content": "a b"}]},
        {"added_tokens": [token | {"content": " "}]},
    ):
        assert word_cache.word_rules(rules | change) is None, change
    path = released.wordpiece_folder(tmp_path)
    rules = opening.open_tokenizer(path).rules
    assert word_cache.word_rules(rules) == (False, False)
    token = rules["added_tokens"][0] | {"content": "  "}
    assert word_cache.word_rules(rules | {"added_tokens": [token]}) is None


def test_unigrams_whose_words_are_not_apart(tmp_path):
    rules = opening.open_tokenizer(released.albert(tmp_path)).rules
    assert word_cache.word_rules(rules) == (False, True)
    split, mark = rules["pre_tokenizer"]["pretokenizers"]
    replace = {"type": "Replace", "content": "x"}
    for change in (
        {"pre_tokenizer": mark},
        {
            "pre_tokenizer": {
                "type": "Sequence",
                "pretokenizers": [split, mark | {"prepend_scheme": "first"}],
            }
        },
        {"normalizer": replace | {"pattern": {"String": "a b"}}},
        {"normalizer": replace | {"pattern": {"Regex": "a"}}},
        {"normalizer": {"type": "Nmt"}},
    ):
        assert word_cache.word_rules(rules | change) is None, change
    value = {"pre_tokenizer": mark | {"prepend_scheme": "first"}}
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(rules | value))
    tokenizer = opening.open_tokenizer(str(path))
    assert tokenizer._words is None
    check(tokenizer, texts(2))
