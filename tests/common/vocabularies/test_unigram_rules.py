"""ALBERT's SentencePiece file, and files of its class, as one form."""

import json
import shutil

import pytest

from common.errors import UserError
from common.vocabularies import unigram_rules, vocabulary
from data.text.opening import open_tokenizer
from data.text.tokenizer import Tokenizer
from tests.helpers import released

pytest.importorskip("tokenizers")
TEXT = "The ``wide'' River caf\u00e9 (U.S.)"


def _rules(path) -> dict:
    return json.loads(vocabulary.read(str(path)).content)


def _kinds(rules) -> list[str]:
    return [row["type"] for row in rules["normalizer"]["normalizers"]]


def test_the_rules_stand_in_the_folder(tmp_path):
    path = released.albert(tmp_path)
    assert _kinds(_rules(path)) == [
        "Replace",
        "Replace",
        "NFKD",
        "StripAccents",
        "Lowercase",
        "Precompiled",
    ]
    config = {"do_lower_case": False, "keep_accents": True}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    rules = _rules(path)
    assert _kinds(rules) == ["Replace", "Replace", "Precompiled"]
    (tmp_path / "tokenizer_config.json").unlink()
    tokenizer = open_tokenizer(path)
    pieces = [tokenizer.id_to_piece(i) for i in tokenizer.encode(TEXT)]
    said = "".join(pieces).replace("\u2581", " ")
    assert said == ' the "wide" river cafe (u.s.)'
    assert (tokenizer.symbols.cls, tokenizer.symbols.mask) == (2, 4)


def test_user_defined_pieces_cut_the_text(tmp_path):
    path = released.albert(tmp_path, released.USER_DEFINED)
    added = _rules(path)["added_tokens"]
    special = {row["content"]: row["special"] for row in added}
    assert special["[CLS]"] and not special["("]
    assert [row["id"] for row in added] == sorted(row["id"] for row in added)


def test_of_two_files_the_one_with_the_rules_counts(tmp_path):
    path = released.albert(tmp_path)
    content = vocabulary.read(path).content
    assert vocabulary.find(str(tmp_path)) == path
    (tmp_path / "tokenizer.json").write_bytes(content)
    assert vocabulary.find(str(tmp_path)).endswith("tokenizer.json")
    # A model's folder does not take the other file for what it was made with.
    assert vocabulary.trained_with(str(tmp_path)) == []


@pytest.mark.parametrize("name", ["AlbertTokenizer", "AlbertTokenizerFast"])
def test_a_copy_is_the_same_file(tmp_path, name):
    """Rules that stand in a file are not put in again, or in another way."""
    path = released.albert(tmp_path, tokenizer_class=name, do_lower_case=False)
    found = vocabulary.read(path)
    for folder, beside in (("alone", ()), ("both", ("tokenizer_config.json",))):
        new = tmp_path / folder
        new.mkdir()
        vocabulary.copy(found, found.resolve(None), str(new))
        for file in beside:
            shutil.copy(tmp_path / file, new)
        (new / "config.json").write_text('{"model_type": "albert"}')
        again = vocabulary.read(str(new / "tokenizer.json"))
        assert again.sha256 == found.sha256, folder


def test_a_copy_of_a_class_without_rules_is_the_same_file(
    tmp_path, spiece_model
):
    """The encoder's name would give it the rules of ALBERT's."""
    path = released.unigram_json(tmp_path, spiece_model)
    about = {"tokenizer_class": "PreTrainedTokenizerFast"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(about))
    found, new = vocabulary.read(path), tmp_path / "model"
    new.mkdir()
    vocabulary.copy(found, found.resolve(None), str(new))
    (new / "config.json").write_text('{"model_type": "albert"}')
    again = vocabulary.read(str(new / "tokenizer.json"))
    assert again.sha256 == found.sha256


def test_files_of_version_4_get_the_rules_of_their_class(
    tmp_path, spiece_model
):
    """Those have other blanks: a space at the end is a piece there."""
    path = released.unigram_json(tmp_path, spiece_model)
    plain = open_tokenizer(path).encode("A b ")
    (tmp_path / "config.json").write_text('{"model_type": "xlnet"}')
    rules = _rules(path)
    assert _kinds(rules) == ["Replace", "Replace", "NFKD", "StripAccents"]
    by_class = open_tokenizer(path)
    assert by_class.encode("A b ") == plain[: len(by_class.encode("A b "))]
    assert by_class.encode("A b ") == by_class.encode("A b") != plain
    other = {"tokenizer_class": "PreTrainedTokenizerFast"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(other))
    assert open_tokenizer(path).encode("A b ") == plain


@pytest.mark.parametrize(
    "kind, scheme",
    [("XLNetTokenizer", "always"), ("AlbertTokenizer", "never")],
)
def test_the_first_word_mark_is_a_setting_of_alberts_class(
    tmp_path, kind, scheme
):
    """XLNet's class has it always, whatever its folder says."""
    (tmp_path / "spiece").mkdir()
    path = released.unigram_json(tmp_path, released.albert(tmp_path / "spiece"))
    config = {"tokenizer_class": kind, "add_prefix_space": False}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    parts = _rules(path)["pre_tokenizer"]["pretokenizers"]
    assert parts[-1]["prepend_scheme"] == scheme


@pytest.mark.parametrize(
    "said,wanted",
    [
        # As `AutoTokenizer` of transformers 5.23 cuts it, by class or type.
        ({}, "the cafe 漢 京"),
        ({"do_lower_case": True}, "the cafe 漢 京"),
        ({"do_lower_case": False}, "The [UNK] 漢 京"),
        ({"strip_accents": False}, "the [UNK] 漢 京"),
        ({"tokenize_chinese_chars": False}, "the cafe [UNK]"),
        ({"do_lower_case": False, "strip_accents": True}, "The Cafe"),
    ],
)
def test_what_berts_class_is_told_counts_in_a_tokenizer_json(
    tmp_path, said, wanted
):
    source = tmp_path / "source"
    source.mkdir()
    vocab = released.wordpiece_folder(source)
    with open(vocab, "a") as f:
        f.write("The\nCafe\n")
    content = vocabulary.read(vocab).content
    wanted = wanted.replace("The Cafe", "The Cafe 漢 京")
    names = ("BertTokenizer", "BertTokenizerFast", "DistilBertTokenizer")
    for name in (*names, "ElectraTokenizerFast", ""):
        folder = tmp_path / f"folder{name}"
        folder.mkdir()
        (folder / "tokenizer.json").write_bytes(content)
        config = said | ({"tokenizer_class": name} if name else {})
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
        (folder / "config.json").write_text('{"model_type": "bert"}')
        tokenizer = open_tokenizer(str(folder / "tokenizer.json"))
        pieces = tokenizer.encode_pieces("The Café 漢京")
        assert " ".join(pieces) == wanted, name
        if not said:
            assert tokenizer.vocabulary.content == content
    # What is not said is the class's where the case is.
    rules = json.loads(content)
    rules["normalizer"]["handle_chinese_chars"] = False
    (folder / "tokenizer.json").write_text(json.dumps(rules))
    rule = _rules(folder / "tokenizer.json")["normalizer"]
    chinese = "do_lower_case" in said
    assert rule["handle_chinese_chars"] is chinese
    (folder / "tokenizer.json").write_bytes(content)
    # A ModernBERT's tokenizer is the file's.
    (folder / "config.json").write_text('{"model_type": "modernbert"}')
    as_it_is = vocabulary.read(str(folder / "tokenizer.json"))
    assert as_it_is.content == content
    (folder / "config.json").write_text('{"model_type": "bert"}')
    # A class that takes the file as it is.
    config = said | {"tokenizer_class": "PreTrainedTokenizerFast"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    as_it_is = vocabulary.read(str(folder / "tokenizer.json"))
    assert as_it_is.content == content


def test_a_class_is_a_name():
    """A `config.json` may hold a list in its place."""
    assert unigram_rules.class_of({}, "albert") == "AlbertTokenizer"
    assert unigram_rules.class_of({}, [[]]) == ""
    assert unigram_rules.class_of({}, None) == ""
    config = {"tokenizer_class": "AlbertTokenizerFast"}
    assert unigram_rules.class_of(config, None) == "AlbertTokenizer"
    assert unigram_rules.class_of(config, "modernbert") == ""


def test_other_kinds_are_one_line(tmp_path):
    path = released.albert(tmp_path, kind="bpe")
    with pytest.raises(UserError, match="type unigram, found another"):
        vocabulary.read(path)
    # Cut in a piece, and behind one.
    for size in (5000, 81):
        with open(path, "r+b") as f:
            f.truncate(size)
        with pytest.raises(UserError, match="but .*; take another copy") as e:
            vocabulary.read(path)
        assert "\n" not in str(e.value)
    with pytest.raises(UserError, match="found the tokenizer of released"):
        Tokenizer(path)
