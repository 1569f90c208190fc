"""SMART records: fields that come twice, stray lines, what is refused."""

import pytest

from common.errors import UserError
from data.finetuning.ranking import smart


def write(folder, text):
    path = folder / "x.smart"
    path.write_text(text)
    return str(path)


def test_a_field_that_comes_twice_is_one_text(tmp_path):
    path = write(tmp_path, ".I 7\n.T\na\n b \n.W\nc\n.T\nd\n.I 012\n.W\n\ne\n")
    first, second = smart.read(path, "--x")
    assert (first.id, first.number) == ("7", 1)
    assert first.fields == {"T": "a\n b \nd", "W": "c"}
    assert (second.id, second.number, second.fields) == ("012", 9, {"W": "e"})


def test_texts_take_the_fields_in_the_order_that_is_asked_for(tmp_path):
    path = write(tmp_path, ".X\n.I 1\n.T\nt\n.A\nwho\n.W\nw\n.I 2\n.W\nv\n")
    assert list(smart.texts(path, "--x", "WT")) == [
        (2, "1", "w\nt"),
        (9, "2", "v"),
    ]


@pytest.mark.parametrize(
    "text, message",
    [
        ("loose\n.I 1\n", "x.smart:1: wanted a record's start"),
        (".I 1\n.W\na\n.I\n", "x.smart:4: wanted a number after .I"),
        (".I 1\nloose\n", "x.smart:2: wanted a field such as"),
    ],
)
def test_lines_out_of_place_are_named(tmp_path, text, message):
    with pytest.raises(UserError, match=message):
        list(smart.read(write(tmp_path, text), "--x"))
