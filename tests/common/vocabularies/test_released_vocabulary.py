"""Vocabulary files of released weights as a tokenizer.json, by hand."""

import json

import pytest

from common.errors import UserError
from common.vocabularies import released_vocabulary as released

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "##s"]


def text(pieces, end="\n"):
    return end.join([*pieces, ""]).encode()


def test_a_vocab_txt_becomes_wordpiece():
    value = json.loads(released.as_json("a/vocab.txt", text(PIECES), {}))
    model = value["model"]
    assert model["type"] == "WordPiece"
    assert model["vocab"] == {piece: i for i, piece in enumerate(PIECES)}
    assert model["max_input_chars_per_word"] == 100
    added = {row["content"]: row["id"] for row in value["added_tokens"]}
    assert added == {piece: i for i, piece in enumerate(PIECES[:5])}
    assert value["normalizer"]["lowercase"] is True
    windows = released.as_json("a/vocab.txt", text(PIECES, "\r\n"), {})
    assert json.loads(windows) == value


def test_letters_or_the_folders_settings_tell_the_case():
    cased = text([*PIECES, "River"])
    for config, lower in (({}, False), ({"do_lower_case": True}, True)):
        value = json.loads(released.as_json("vocab.txt", cased, config))
        assert value["normalizer"]["lowercase"] is lower


def test_the_symbols_of_a_vocab_txt_are_those_of_its_folder():
    """`[MASK]` is text to a tokenizer whose mask is another piece."""
    config = {"mask_token": {"content": "the", "rstrip": True}}
    for pieces in (PIECES, PIECES[:4] + PIECES[5:]):
        made = released.as_json("vocab.txt", text(pieces), config)
        added = {r["content"]: r for r in json.loads(made)["added_tokens"]}
        assert set(added) == {*PIECES[:4], "the"}
        assert added["the"]["special"] and added["the"]["rstrip"]
    made = released.as_json("vocab.txt", text(PIECES), {"unk_token": "##s"})
    assert json.loads(made)["model"]["unk_token"] == "##s"
    with pytest.raises(UserError, match="<u>, .* <u> is missing"):
        released.as_json("vocab.txt", text(PIECES), {"unk_token": "<u>"})


def test_the_mask_takes_the_blank_before_it_where_no_folder_says_otherwise():
    for rules, lstrip in (({}, True), ({"lstrip": False}, False)):
        config = {"mask_token": {"content": "<mask>"} | rules}
        value = byte_level(b"a b\n", config)
        row = next(r for r in value["added_tokens"] if r["id"] == 6)
        assert row["lstrip"] is lstrip and row["special"]


def test_the_last_of_equal_pieces_counts():
    value = json.loads(
        released.as_json("vocab.txt", text([*PIECES, "the", "end"]), {})
    )
    assert value["model"]["vocab"]["the"] == 7
    assert value["model"]["vocab"]["end"] == 8


NUMBERS = {"a": 0, "b": 1, "c": 2, "ab": 3, "abc": 4, "<s>": 5, "<mask>": 6}


def byte_level(merges, config=None, numbers=NUMBERS):
    content = json.dumps(numbers).encode()
    return json.loads(
        released.as_json("x/vocab.json", content, config or {}, merges)
    )


def test_a_vocab_json_takes_its_merges_in_order():
    value = byte_level(b"#version: 0.2\na b\nab c\na b\n\n")
    # Of equal pairs the last counts.
    assert value["model"]["merges"] == [["ab", "c"], ["a", "b"]]
    assert value["pre_tokenizer"]["add_prefix_space"] is False
    added = {row["content"]: row for row in value["added_tokens"]}
    assert set(added) == {"<s>", "<mask>"}
    assert added["<mask>"]["lstrip"] and not added["<s>"]["lstrip"]


@pytest.mark.parametrize(
    "path, known, other",
    [
        ("vocab.txt", "DistilBertTokenizerFast", "BertJapaneseTokenizer"),
        ("vocab.txt", "PreTrainedTokenizerFast", "KoBertTokenizer"),
        ("vocab.json", "RobertaTokenizer", "HerbertTokenizerFast"),
        ("vocab.json", "TokenizersBackend", "CTRLTokenizer"),
    ],
)
def test_a_class_with_other_rules_is_refused(path, known, other):
    """Its words are other ones: MeCab's, or those with `</w>` at their end."""
    bpe = path.endswith(".json")
    content = json.dumps(NUMBERS).encode() if bpe else text(PIECES)
    merges = b"a b\n" if bpe else None
    released.as_json(path, content, {"tokenizer_class": known}, merges)
    name = other.removesuffix("Fast")
    with pytest.raises(
        UserError, match=f"{path}: .*the tokenizer_class {name}"
    ):
        released.as_json(path, content, {"tokenizer_class": other}, merges)


def test_declared_tokens_come_before_known_ones():
    rows = {"6": {"content": "<m>", "rstrip": True}, "2": {"content": "c"}}
    config = {"added_tokens_decoder": rows, "add_prefix_space": True}
    value = byte_level(b"a b\n", config)
    assert [(r["id"], r["content"]) for r in value["added_tokens"]] == [
        (2, "c"),
        (6, "<m>"),
    ]
    assert value["added_tokens"][1]["rstrip"] is True
    assert value["pre_tokenizer"]["add_prefix_space"] is True


@pytest.mark.parametrize(
    "path, content, merges, message",
    [
        ("vocab.txt", text(PIECES[1:]), None, r"\[PAD\] is missing"),
        ("vocab.txt", b"\xff\n", None, "wanted lines in UTF-8"),
        ("vocab.json", b'{"a": true}', b"", "not an object of piece and id"),
        ("vocab.json", b'{"a": 1}', None, "wanted merges.txt beside it"),
        ("vocab.json", b'{"a": 1}', b"a a\n", "merges.txt:1: wanted two piec"),
        ("vocab.json", b'{"a": 1}', b"a\n", "merges.txt:1: wanted two pieces"),
    ],
)
def test_what_is_no_vocabulary_is_one_line(path, content, merges, message):
    with pytest.raises(UserError, match=message) as caught:
        released.as_json(path, content, {}, merges)
    assert "\n" not in str(caught.value)


def test_the_name_tells_the_form():
    assert released.is_released("x/tokenizer.json")
    assert released.is_released("x/vocab.txt")
    assert not released.is_released("x/spiece.vocab")
