"""The record beside a vocabulary file, and of models."""

import json
import os
import random

import pytest

from common import files
from common.errors import UserError
from common.vocabularies import vocabulary, vocabulary_field
from common.vocabularies.text_settings import (
    COMPOSED,
    ORIGINAL,
    TextChoice,
    TextSettings,
)
from data.text.tokenizer import Tokenizer

SETTINGS = TextSettings(COMPOSED, uncased=True)


def test_damage_without_a_record_is_one_line_or_harmless(path, plain):
    """Nothing but a `UserError` leaves the tokenizer."""
    rng = random.Random(5)
    refused = 0
    for _ in range(150):
        damaged = bytearray(plain)
        for _ in range(rng.choice((1, 4))):
            damaged[rng.randrange(len(plain))] = rng.randrange(256)
        path.write_bytes(damaged)
        try:
            Tokenizer(str(path)).encode("a plain Ünder 2000,")
        except UserError as e:
            refused += 1
            assert "\n" not in str(e) and "spiece.model" in str(e)
    assert refused


def test_precedence_file_then_json_then_hugging_face_then_original(path, plain):
    folder = path.parent
    about = folder / "spiece.json"
    theirs = folder / "tokenizer_config.json"

    assert vocabulary.read(str(path)).recorded is None
    assert Tokenizer(str(path)).settings == TextSettings(ORIGINAL)
    theirs.write_text(json.dumps({"do_lower_case": True, "keep_accents": True}))
    assert Tokenizer(str(path)).settings == SETTINGS
    # As the trainer wrote it before the record stood in the file.
    digest = vocabulary.read(str(path)).sha256
    old = {"keep_accents": True, "uncased": False, "model_sha256": digest}
    about.write_text(json.dumps(old))
    assert Tokenizer(str(path)).settings == TextSettings(COMPOSED)

    path.write_bytes(vocabulary_field.embed(plain, SETTINGS))
    with pytest.raises(UserError, match="not the file that .*spiece.json"):
        Tokenizer(str(path))
    about.unlink()
    found = vocabulary.read(str(path))
    assert (found.recorded, found.source) == (SETTINGS, "in the file")
    other = {
        "model_sha256": found.sha256,
        "text_settings": TextSettings().as_dict(),
    }
    about.write_text(json.dumps(other))
    with pytest.raises(UserError, match="different text settings: wanted rule"):
        Tokenizer(str(path))


def test_another_json_beside_it_is_left_alone(path):
    (path.parent / "spiece.json").write_text('{"version": "1.0"}')
    assert Tokenizer(str(path)).settings == TextSettings()


@pytest.mark.parametrize("name", ["spiece.json", "spiece.model"])
def test_a_copy_that_died_is_no_vocabulary(path, tmp_path, monkeypatch, name):
    """It lacked its record, also when the command was started again."""
    written = files.atomic_open

    def die(target, mode="wb"):
        if os.path.basename(target) == name:
            raise KeyboardInterrupt
        return written(target, mode)

    monkeypatch.setattr(files, "atomic_open", die)
    folder = tmp_path / "copy"
    folder.mkdir()
    with pytest.raises(KeyboardInterrupt):
        vocabulary.copy(vocabulary.read(str(path)), SETTINGS, str(folder))
    assert vocabulary.find(str(folder)) is None


def test_a_choice_is_taken_without_a_record_and_kept_with_the_copy(
    path, tmp_path
):
    tokenizer = Tokenizer(str(path), TextChoice(uncased=True))
    assert tokenizer.settings == TextSettings(ORIGINAL, uncased=True)
    folder = tmp_path / "model"
    folder.mkdir()
    copy = vocabulary.copy(
        tokenizer.vocabulary, tokenizer.settings, str(folder)
    )
    assert Tokenizer(copy).settings == tokenizer.settings
    with pytest.raises(UserError, match="uncased. wanted False, found True"):
        Tokenizer(copy, TextChoice(uncased=False))
    with pytest.raises(UserError, match="text_rule. wanted composed, found or"):
        Tokenizer(copy, TextChoice(COMPOSED))


@pytest.mark.parametrize(
    "name, content",
    [
        ("task.json", {"spiece_sha256": None, "uncased": True}),
        ("task.json", {"spiece_sha256": None, "text": None}),
        ("run.json", {"must_match": {"vocabulary": None, "text_settings": 0}}),
        ("run.json", {"must_match": {"spiece_sha256": None}}),
        ("spiece.json", {"model_sha256": None, "text_settings": 0}),
    ],
)
def test_a_model_of_another_vocabulary_or_settings_is_refused(
    path, tmp_path, name, content
):
    found = vocabulary.read(str(path))
    recorded = TextSettings(ORIGINAL, uncased=True)

    def fill(value, sha256):
        if isinstance(value, dict):
            return {
                k: (
                    sha256
                    if v is None and k != "text"
                    else recorded.as_dict()
                    if k in ("text", "text_settings")
                    else fill(v, sha256)
                )
                for k, v in value.items()
            }
        return value

    folder = tmp_path / "model"
    folder.mkdir()
    (folder / name).write_text(json.dumps(fill(content, found.sha256)))
    settings = vocabulary.settle(found, None, str(folder))
    if "text" in json.dumps(content) or "uncased" in content:
        assert settings == recorded
        with pytest.raises(UserError, match=f"{name}.*wanted False, found Tr"):
            vocabulary.settle(found, TextChoice(uncased=False), str(folder))
    (folder / name).write_text(json.dumps(fill(content, "0" * 64)))
    with pytest.raises(UserError, match=f"{name}: wanted spiece_sha256 000"):
        vocabulary.settle(found, None, str(folder))


def test_the_copy_by_a_checkpoint_is_compared(path, tmp_path, plain):
    folder = tmp_path / "model"
    folder.mkdir()
    other = vocabulary_field.embed(plain, TextSettings(COMPOSED))
    (folder / "spiece.model").write_bytes(other)
    with pytest.raises(UserError, match="another vocabulary than the one of"):
        vocabulary.settle(vocabulary.read(str(path)), None, str(folder))


@pytest.mark.parametrize("kind", ["XLNetTokenizer", "PreTrainedTokenizerFast"])
def test_hugging_face_folders_give_the_settings(path, kind):
    config = {"do_lower_case": True, "keep_accents": True}
    config |= {"tokenizer_class": kind}
    (path.parent / "tokenizer_config.json").write_text(json.dumps(config))
    wanted = TextSettings("composed", uncased=True)
    assert vocabulary.read(str(path)).recorded == wanted


@pytest.mark.parametrize(
    "content", [b"{", b"[1]", b"[" * 100_000, b"1" * 5000, b"\xff"]
)
@pytest.mark.parametrize("name", ["spiece.model", "vocab.txt"])
def test_damaged_rules_are_not_passed_over(path, name, content):
    """Without them texts would be cut by other rules, and nobody would know."""
    words = path.parent / "vocab.txt"
    words.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nA\n")
    (path.parent / "tokenizer_config.json").write_bytes(content)
    with pytest.raises(UserError, match="tokenizer_config.json") as caught:
        vocabulary.read(str(path.parent / name))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("rules", [None, {"do_lower_case": False}])
def test_the_models_configuration_may_name_the_class(tmp_path, rules):
    """As that of `cl-tohoku/bert-base-japanese`, whose words are MeCab's."""
    words = tmp_path / "vocab.txt"
    words.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nA\n")
    if rules is not None:
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(rules))
    about = {"model_type": "bert", "tokenizer_class": "BertJapaneseTokenizer"}
    (tmp_path / "config.json").write_text(json.dumps(about))
    with pytest.raises(UserError, match="found the tokenizer_class BertJapan"):
        vocabulary.read(str(words))
    own = (rules or {}) | {"tokenizer_class": "BertTokenizer"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(own))
    assert vocabulary.read(str(words)).about["tokenizer_class"] == (
        "BertTokenizer"
    )
