"""Rules that SentencePiece's kinds of `tokenizer.json` share."""

import pytest

from common.errors import UserError
from data.text import opening
from data.text.released import marked_file
from data.text.released.marked_file import Marks, Step
from tests.helpers import released

pytest.importorskip("tokenizers")


def test_steps_in_the_order_of_the_file():
    rule = {
        "type": "Sequence",
        "normalizers": [
            {"type": "Prepend", "prepend": "\u2581"},
            {"type": "NFKC"},
            {
                "type": "Sequence",
                "normalizers": [
                    {
                        "type": "Replace",
                        "pattern": {"Regex": " {2,}"},
                        "content": " ",
                    },
                    {"type": "Strip", "strip_left": False, "strip_right": True},
                    {
                        "type": "Replace",
                        "pattern": {"String": "``"},
                        "content": '"',
                    },
                ],
            },
        ],
    }
    assert marked_file._steps({"normalizer": rule}, "x") == [
        Step(marked_file.PREPEND),
        Step(marked_file.COMPOSE, rules="NFKC"),
        Step(marked_file.COLLAPSE, new=" "),
        Step(marked_file.STRIP, rules="right"),
        Step(marked_file.REPLACE, "``", '"'),
    ]


def test_a_mark_of_another_kind_is_refused():
    rule = {"type": "Prepend", "prepend": "_"}
    with pytest.raises(UserError, match="Prepend of a mark"):
        marked_file._steps({"normalizer": rule}, "x")


def test_texts_of_ids_have_bytes_where_the_decoder_has(tmp_path):
    offline = opening.open_tokenizer(released.character_bpe(tmp_path))
    none = Marks(False, "never", False)
    file = marked_file.parse(offline, 3, none)
    assert file.texts[file.bytes[0xE6]] == b"\xe6"
    assert file.texts[offline.symbols.cls] == b"" and not file.strip
    assert file.texts[offline.encode("\n\n")[0]] == b"\n\n"

    def change(value):
        rule = value["pre_tokenizer"] = {
            "type": "Metaspace",
            "replacement": "\u2581",
            "prepend_scheme": "always",
            "split": True,
        }
        value["decoder"] = rule

    path = released.character_bpe(tmp_path, change)
    file = marked_file.parse(opening.open_tokenizer(path), 3, none)
    assert file.texts[file.bytes[0xE6]] == b"<0xE6>" and file.strip
