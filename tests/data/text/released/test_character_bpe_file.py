"""Files of BPE by characters."""

import pytest

from common.errors import UserError
from data.text import opening
from data.text.released import character_bpe_file
from data.text.released.marked_file import Marks
from tests.helpers import released

pytest.importorskip("tokenizers")


def test_the_normalizer_may_have_made_the_marks(tmp_path):
    offline = opening.open_tokenizer(released.character_bpe(tmp_path))
    file = character_bpe_file.parse(offline)
    assert file.marked.marks == Marks(False, "never", False)
    assert file.characters["e"] == offline.package.token_to_id("e")
    assert "\u2581r" in file.neighbours and "r\u2581" not in file.neighbours


def test_merges_are_rows_of_ids_in_their_order(tmp_path):
    offline = opening.open_tokenizer(released.character_bpe(tmp_path))
    rows = character_bpe_file.parse(offline).merges.rows
    piece = offline.id_to_piece
    assert all(piece(a) + piece(b) == piece(new) for a, b, new in rows)
    assert [[piece(a), piece(b)] for a, b, _ in rows] == [
        list(pair) for pair in offline.rules["model"]["merges"]
    ]


def test_some_bytes_and_merges_of_bytes_are_refused(tmp_path):
    def some(value):
        vocab = value["model"]["vocab"]
        vocab["other"] = vocab.pop("<0x41>")

    def of_bytes(value):
        model = value["model"]
        model["merges"].append(["<0x41>", "<0x42>"])
        model["vocab"]["<0x41><0x42>"] = max(model["vocab"].values()) + 2

    for change, message in (
        (some, "a piece for every byte, found some of them"),
        (of_bytes, "found merges of bytes"),
    ):
        path = released.character_bpe(tmp_path, change)
        with pytest.raises(UserError, match=message):
            character_bpe_file.parse(opening.open_tokenizer(path))


def test_a_character_without_anything_is_refused(tmp_path):
    def change(value):
        value["model"] |= {"byte_fallback": False, "unk_token": None}

    path = released.character_bpe(tmp_path, change)
    with pytest.raises(UserError, match="an unk_token or a piece for every"):
        character_bpe_file.parse(opening.open_tokenizer(path))
