"""Unigram files: symbols and rules."""

import json
import pathlib

import pytest

from data.text import opening
from data.text.released import unigram_file
from tests.helpers import released

pytest.importorskip("tokenizers")


def test_symbols_of_xlnet_are_found(tmp_path, spiece_model):
    path = released.unigram_json(tmp_path, spiece_model)
    found, own = (opening.open_tokenizer(p) for p in (path, spiece_model))
    assert found.symbols == own.symbols
    assert unigram_file.parse(found).marked.marks.prepend == "always"
    assert (
        json.loads(pathlib.Path(path).read_text())["model"].get("type") is None
    )
