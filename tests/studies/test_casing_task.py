"""A tagging task from any text: words, tags, and files that are no text."""

import gzip
import types

import pytest

from common.errors import UserError
from studies import casing_task

LINES = [f"Ada left, and {word} NASA saw McKay. No?" for word in "abcdefghijkl"]


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Runs the command on files of `tmp_path`; its splits."""

    def run(pattern="*.txt", max_lines=99):
        values = types.SimpleNamespace(
            input_glob=str(tmp_path / pattern),
            output_dir=str(tmp_path / "out"),
            max_lines=max_lines,
        )
        monkeypatch.setattr(casing_task, "FLAGS", values)
        casing_task.main()
        paths = sorted((tmp_path / "out").iterdir())
        return {p.stem: p.read_text().strip().split("\n\n") for p in paths}

    return run


def test_words_have_the_case_and_the_mark_that_they_lost(tmp_path, write):
    (tmp_path / "a.txt").write_text("Too short.\n" + "\n".join(LINES))
    found = write()
    assert {name: len(texts) for name, texts in found.items()} == {
        "train": 10,
        "dev": 1,
        "test": 1,
    }
    assert found["dev"] == [
        "ada\tU\nleft\tl-comma\nand\tl\ni\tl\nnasa\tA\nsaw\tl\n"
        "mckay\tM-period\nno\tU-question"
    ]


def test_packed_files_and_fewer_lines(tmp_path, write):
    text = "\n".join(LINES).encode()
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(text))
    found = write("*.gz", max_lines=10)
    assert sum(map(len, found.values())) == 10


def test_files_that_are_no_text_are_named(tmp_path, write):
    """The line named no file."""
    (tmp_path / "a.txt").write_bytes("\n".join(LINES).encode() + b"\ncaf\xe9")
    with pytest.raises(UserError, match=r"a\.txt: line 13: not UTF-8"):
        write()
    with pytest.raises(UserError, match=r"\*\.md matches no file"):
        write("*.md")
    (tmp_path / "a.txt").write_text(LINES[0])
    with pytest.raises(UserError, match="holds 1 lines of 5 to 200 words"):
        write()
    assert not (tmp_path / "out").exists()
