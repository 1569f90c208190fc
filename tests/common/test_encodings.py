"""Bytes of whole files: text in lines, or one line that says what they are."""

import bz2
import gzip
import lzma

import pytest

from common import encodings
from common.errors import UserError


@pytest.mark.parametrize(
    "data, lines",
    [
        (b"\xef\xbb\xbfa\n\nb\n", ["a", "", "b"]),
        (b"a\r\n\r\nb\r\n", ["a", "", "b"]),
        (b"a\r\nb\r", ["a", "b"]),
        (b"a\rb\nc", ["a\rb", "c"]),
        (b"\n", [""]),
        (b"", []),
    ],
)
def test_lines_are_without_mark_and_ends(data, lines, tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes(data)
    assert encodings.read_lines(str(path), "text") == lines


@pytest.mark.parametrize("name", ["a.csv", "A.TSV", "a.jsonl", "a.json"])
def test_lines_of_a_table_are_no_texts(tmp_path, name):
    """A header and labels had vectors of their own."""
    path = tmp_path / name
    path.write_text("text,label\n")
    with pytest.raises(UserError, match="--f=.*: wanted one text per line"):
        encodings.read_texts(str(path), "f")
    path = tmp_path / "a.txt"
    path.write_text("text,label\n\nb")
    assert encodings.read_texts(str(path), "f") == ["text,label", "", "b"]


def test_a_file_that_a_flag_names_and_nobody_can_read(tmp_path):
    for path, why in ((tmp_path, "Is a dir"), (tmp_path / "x", "No such file")):
        with pytest.raises(UserError) as caught:
            encodings.read(str(path), "text")
        assert f"--text={path} cannot be read: {why}" in str(caught.value)
    (tmp_path / "x").write_bytes(b"a\xef")
    with pytest.raises(UserError, match="--text=.*x:1: is not UTF-8"):
        encodings.read(str(tmp_path / "x"), "text")


@pytest.mark.parametrize(
    "data, found",
    [
        ("One.\nTwo.".encode("utf-16"), "x.txt:1: the file is UTF-16 by"),
        ("One.\n".encode("utf-16-le"), "x.txt:1: the file begins as UTF-16LE"),
        (b"One.\rTwo.\r", "x.txt:1: lines end with CR alone"),
        (b"One.\nna\xefve\n", "x.txt:2: is not UTF-8 .0xef after b'One"),
        (gzip.compress(b"One.", mtime=13), "x.txt:1: .* packed .* .gzip.;"),
        (bz2.compress(b"One."), "x.txt:1: .* packed .* .bzip2.; unpack it"),
        (lzma.compress(b"One."), "x.txt:1: .* packed .* .xz.; unpack it"),
        (b"PK\x03\x04\x14\0", "x.txt:1: .* packed .* .zip.; unpack it"),
        (b"(\xb5/\xfd$", "x.txt:1: .* packed .* .zstd.; unpack it"),
    ],
)
def test_what_is_no_text_in_lines_is_named(data, found):
    with pytest.raises(UserError, match=found):
        encodings.decode(data, "x.txt")


def test_half_a_surrogate_pair_is_no_text():
    assert (
        encodings.half_pair() is encodings.half_pair("a", "\U0001f600") is None
    )
    assert encodings.half_pair("a", "b\ud83d") == (
        "\\ud83d is half of a surrogate pair and no character; drop it from "
        "the text"
    )
