"""Names and weights of sources, and the order in which blocks are read."""

import pytest

from common.errors import UserError
from data.corpus import documents, sources
from data.corpus.sources import Reading, Source


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name in ("wiki/b", "wiki/a", "books/x", "lang=en/y"):
        path = tmp_path / f"{name}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text("text\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_names_weights_and_files(folder):
    wiki, books = ("wiki/a.txt", "wiki/b.txt"), ("books/x.txt",)
    assert sources.find("w=wiki/*.txt,b=books/*.txt", "b=2.5") == (
        *(Source("w", wiki), Source("b", books, 2.5)),
    )
    # A name may come again; a file twice is one file.
    assert sources.find("w=wiki/b.txt,w=wiki/*.txt") == (
        Source("w", ("wiki/b.txt", "wiki/a.txt")),
    )
    # No names: one source, as ever; a path may have such a form itself.
    assert sources.find("books/*.txt,lang=en/y.txt,") == (
        Source("", ("books/x.txt", "lang=en/y.txt")),
    )
    assert documents.list_files("w=wiki/*.txt,b=books/x.txt") == [*wiki, *books]


def test_two_stars_are_folders_of_any_depth(folder):
    deep = folder / "wiki" / "c" / "d" / "e.txt"
    deep.parent.mkdir(parents=True)
    deep.write_text("text\n")
    wanted = ["wiki/a.txt", "wiki/b.txt", "wiki/c/d/e.txt"]
    assert documents.list_files("wiki/**/*.txt") == wanted


def test_a_file_of_two_spellings_is_read_once(folder):
    pattern = f"wiki/a.txt,./wiki/a.txt,{folder}/wiki/*.txt,wiki/../wiki/b.txt"
    assert documents.list_files(pattern) == [
        "wiki/a.txt",
        f"{folder}/wiki/b.txt",
    ]


@pytest.mark.parametrize(
    "pattern,weights,message",
    [
        ("", "", "is empty"),
        ("gs://b/**/*.txt", "", "for folders of this machine"),
        ("w=wiki/*,b=./wiki/a.txt", "", "./wiki/a.txt is of two sources"),
        ("w=", "", "no pattern behind"),
        ("w=nowhere/*", "", "--input_glob=nowhere/. matches no file"),
        ("wiki/", "", "glob=wiki/ is a folder; .* such as 'wiki/\\*.txt'"),
        ("w=wiki/*,books/*", "", r"books/\* has no name and others have"),
        ("w=wiki/*,b=*/a.txt", "", "wiki/a.txt is of two sources, w and b"),
        ("wiki/*", "w=2", "'w' is no source.*are: none"),
        ("w=wiki/*,b=books/*", "x=2", "'x' is no source.*are: w, b"),
        ("w=wiki/*", "w=2,w=3", "'w' is there twice"),
        ("w=wiki/*", "=2", "'' is no source"),
        ("w=wiki/*", "w=0", "weight of w must be .* above 0.*found '0'"),
        ("w=wiki/*", "w=101", "at most 100, found '101'"),
        ("w=wiki/*", "w=nan", "found 'nan'"),
        ("w=wiki/*", "w", "found ''"),
        ("w=wiki/*", "w=two", "found 'two'"),
    ],
)
def test_what_cannot_be_is_one_line(folder, pattern, weights, message):
    with pytest.raises(UserError, match=message):
        sources.find(pattern, weights)


def test_the_order_of_readings_by_hand():
    found = (
        *(Source("a", ("1", "2"), 2.5), Source("b", ("3",), 0.5)),
        Source("c", ("4",), 2.0),
    )
    blocks, readings = sources.plan(found, lambda paths: [p * 3 for p in paths])
    assert blocks == "111 222 333 444 111 222 111 222 444".split()
    assert readings == (
        *(Reading("a", 0), Reading("a", 1), Reading("b", 2, 0.5)),
        *(Reading("c", 3), Reading("a", 0), Reading("a", 1)),
        *(Reading("a", 0, 0.5), Reading("a", 1, 0.5), Reading("c", 3)),
    )
    assert sources.plan([Source("", ("1", "2"))], list) == (["1", "2"], ())
