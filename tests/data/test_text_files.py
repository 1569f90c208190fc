"""Lines of plain, gzip and JSONL files."""

import gzip
import json

import pytest

from common.errors import UserError
from data import text_files


def test_globs_are_sorted_and_each_file_comes_once(tmp_path):
    for name in ("b.txt", "a.txt", "c.dat"):
        (tmp_path / name).write_text("x\n")
    found = text_files.expand_globs(f"{tmp_path}/*.txt, {tmp_path}/a*")
    assert [p[-5:] for p in found] == ["a.txt", "b.txt"]


def test_a_pattern_without_files_and_no_pattern_are_refused(tmp_path):
    with pytest.raises(UserError, match="no file matches.*nothing"):
        text_files.expand_globs(f"{tmp_path}/nothing*")
    with pytest.raises(UserError, match="no input files"):
        text_files.expand_globs(" , ")


@pytest.mark.parametrize("name", ["t.txt", "t.txt.gz"])
def test_plain_and_gzip_lines(tmp_path, name):
    content = "one\r\n\ntwo  \nü".encode()
    path = tmp_path / name
    path.write_bytes(gzip.compress(content) if name[-1] == "z" else content)
    assert list(text_files.read_lines(str(path))) == ["one", "", "two  ", "ü"]


def test_a_jsonl_record_is_a_document(tmp_path):
    path = tmp_path / "t.jsonl"
    rows = [{"text": "a b.\nc d."}, {"text": "e f.", "other": 1}]
    path.write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    assert list(text_files.read_lines(str(path))) == [
        "a b.",
        "c d.",
        "",
        "e f.",
        "",
    ]


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("a.txt", b"fine\n\xff\xfe\n", r"a.txt:2: not valid UTF-8"),
        ("b.txt.gz", gzip.compress(b"x\n" * 9999, mtime=0)[:-9], "broken gzip"),
        ("c.txt.gz", b"not gzip", r"c.txt.gz:1: broken gzip"),
        ("d.jsonl", b'{"text": "x"}\n{"text"\n', r"d.jsonl:2: not valid JSON"),
        ("e.jsonl", b'{"txt": "x"}\n', r"e.jsonl:1: wanted .*`text`"),
        ("f.jsonl", b"[1]\n", r"f.jsonl:1: wanted .*`text`"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_files_name_file_and_line(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UserError, match=message):
        list(text_files.read_lines(str(path)))


def test_remote_paths_go_through_gfile(tmp_path):
    (tmp_path / "a.txt").write_text("line\n")
    # `file://` is the one remote-like scheme that every machine has.
    found = text_files.expand_globs(f"file://{tmp_path}/*.txt")
    assert len(found) == 1
    assert list(text_files.read_lines(found[0])) == ["line"]
