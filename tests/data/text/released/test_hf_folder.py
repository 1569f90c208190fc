"""What stands beside the weights for Hugging Face's `AutoTokenizer`."""

import json

import pytest

from common.contract.symbols import CLS_FIRST, CLS_LAST
from data.text.opening import open_tokenizer
from data.text.released import hf_folder
from tests.helpers import released

tokenizers = pytest.importorskip("tokenizers")


def _written(folder, layout, **options):
    defaults = {"token_types": True, "max_length": 24, "reads_mask": False}
    symbols, lines = hf_folder.write(
        str(folder), layout, **(defaults | options)
    )
    config = json.loads((folder / "tokenizer_config.json").read_text())
    return config, symbols, lines


@pytest.fixture
def folder(tmp_path, spiece_model):
    with open(spiece_model, "rb") as f:
        (tmp_path / "spiece.model").write_bytes(f.read())
    return tmp_path


@pytest.mark.long
def test_xlnet_is_padded_on_the_left(folder):
    config, symbols, lines = _written(folder, CLS_LAST, max_length=None)
    assert config["padding_side"] == "left"
    assert "model_max_length" not in config
    names = ["input_ids", "token_type_ids", "attention_mask"]
    assert config["model_input_names"] == names
    # The class that takes the file's rules, not its own.
    assert config["tokenizer_class"] == "PreTrainedTokenizerFast"
    assert (config["pad_token"], symbols.pad) == ("<pad>", 5)
    assert (config["cls_token"], config["bos_token"]) == ("<cls>", "<s>")
    assert config["split_special_tokens"]  # they are text in our tasks
    # Numbers such as "19," have no form there (see test_hf_tokenizer).
    assert len(lines) == 1 and " of 2000 texts " in lines[0]
    # Ours reads the folder as before, text settings included.
    found = open_tokenizer(str(folder / "spiece.model"))
    assert found.vocabulary.source == "in tokenizer_config.json"
    assert not found.settings.keep_accents


def test_others_are_padded_on_the_right(folder):
    kept = {"theirs": 1, "tokenizer_class": "AlbertTokenizer"}
    (folder / "tokenizer_config.json").write_text(json.dumps(kept))
    config, _, _ = _written(
        folder, CLS_FIRST, token_types=False, reads_mask=True
    )
    assert config["padding_side"] == "right" and config["theirs"] == 1
    assert config["model_input_names"] == ["input_ids", "attention_mask"]
    assert config["model_max_length"] == 24
    assert config["tokenizer_class"] == "PreTrainedTokenizerFast"
    assert not config["split_special_tokens"]


def test_a_released_tokenizer_stays(tmp_path):
    released.wordpiece_folder(tmp_path)
    about = (tmp_path / "tokenizer_config.json").read_bytes()
    hf_folder.write(str(tmp_path), CLS_FIRST, True, 24, False)
    assert (tmp_path / "tokenizer_config.json").read_bytes() == about
    assert not (tmp_path / "tokenizer.json").exists()
    hf_folder.write(str(tmp_path), CLS_FIRST, True, 24, False, tuned=True)
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    assert config == {"do_lower_case": True, "model_max_length": 24}


@pytest.mark.parametrize(
    "about",
    [
        {},
        {"tokenizer_class": "PreTrainedTokenizerFast", "mask_token": "[MASK]"},
        {"tokenizer_class": "TokenizersBackend"},
    ],
)
def test_a_copy_of_a_tokenizer_gets_what_is_missing(tmp_path, about):
    """A model folder of ours has it alone, or with what it is read with."""
    before = open_tokenizer(released.wordpiece_folder(tmp_path))
    alone = tmp_path / "alone"
    alone.mkdir()
    (alone / "tokenizer.json").write_bytes(before.vocabulary.content)
    if about:
        (alone / "tokenizer_config.json").write_text(json.dumps(about))
    config, symbols, lines = _written(alone, CLS_FIRST)
    assert config["tokenizer_class"] == "PreTrainedTokenizerFast"
    assert (config["cls_token"], lines) == ("[CLS]", [])
    found = open_tokenizer(str(alone / "tokenizer.json"))
    assert found.encode("The unaffable") == before.encode("The unaffable")
    package = tokenizers.Tokenizer.from_file(str(alone / "tokenizer.json"))
    row = package.encode("the").ids
    assert row == [symbols.cls, *found.encode("the"), symbols.sep]


def test_a_folder_without_a_vocabulary_gets_nothing(tmp_path):
    assert hf_folder.write(str(tmp_path), CLS_FIRST, True, 24, False) == (
        None,
        [],
    )
    assert not list(tmp_path.iterdir())


def test_without_the_package_the_line_says_so(folder, monkeypatch):
    def missing(name):
        raise ImportError(f"No module named {name}")

    monkeypatch.setattr(hf_folder.importlib, "import_module", missing)
    _, _, lines = _written(folder, CLS_LAST)
    assert lines[0].startswith("tokenizer.json: not compared")
    assert (folder / "tokenizer.json").exists()
