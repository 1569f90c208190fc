"""Every bad line is named by file and number."""

import lzma

import pytest

from common.errors import UserError
from data.finetuning.ranking import judgments, lines, runs, topics
from tests.data.finetuning.ranking_files import put, texts


def cisi(path):
    return judgments.read(path, "cisi")


def cranfield(path):
    return topics.read(path, "cranfield")


BAD = [
    (topics.read, "1:a\n1:b\n", r"t:2: the query '1' is already on line 1"),
    (topics.read, "no colon\n", r"t:1: wanted <top>"),
    (topics.read, "1:  \n", r"t:1: wanted a text for query '1'"),
    (topics.read, "", r"t is empty"),
    (topics.read, "1\ta\nb\n", r"t:2: wanted id<tab>text, found 'b'"),
    (topics.read, "qid\turl\n1\ta\n", r"t:1: wanted a header of id and text"),
    (texts, "docno\turl\na\tx\n", r"t:1: wanted a header of id and text"),
    (judgments.read, "qid doc_id score url\n", r"t:1: wanted a header of quer"),
    (topics.read, "<top>\n<num>1\n<top>\n", r"t:3: wanted </top> before it"),
    (topics.read, '{"id": [1], "text": "a"}', r"t:1: wanted a string in id or"),
    (topics.read, '{"id": 1, "text": "a \\ud83d"}', r"t:1: the field 'text': "),
    (topics.read, ".I 1\nloose\n", r"t:2: wanted a field such as"),
    (topics.read, b"1:ok\n2:\xff\n", r"t: line 2: not UTF-8 \(byte 0xff"),
    (judgments.read, "1 0 d 1\n1 0 d 2\n", r"t:2: document 'd' .* second time"),
    (judgments.read, "1 0 d x\n", r"t:1: wanted a whole grade.*=cisi"),
    (judgments.read, "1 0 d 1\n1 0 d\n", r"t:2: wanted 4 columns \(trec\)"),
    (judgments.read, "1 d 7\n", r"t:1: wanted a code of -1, 1, 2, 3, 4"),
    (runs.read, "1 Q0 d 1 nan x\n", r"t:1: wanted a finite score in column 5"),
    (runs.read, "1 Q0 d 1 2.0\n", r"t:1: wanted 6 columns"),
    (runs.read, "1 Q0 d 1 2 x\n1 Q0 d 2 1 x\n", r"t:2: document 'd' comes a"),
    (texts, "<DOC>\n<DOCNO>a</DOCNO>\n<DOC>\n", r"t:3: wanted </DOC> before"),
    (texts, "<DOC>\nx\n</DOC>\n", r"t:1: wanted <DOCNO>"),
    (texts, "<DOC>\n<DOCNO>a</DOCNO>\n", r"t:1: wanted </DOC> after <DOC>"),
    (texts, "a b\tx\n", r"t:1: wanted a document id without white space"),
    (texts, "a\tx\nb\n", r"t:2: wanted id<tab>text, found 'b'"),
    (texts, '{"id": "a", "n": 1}\n', r"t:1: wanted a string in text or conte"),
    (texts, '{"id": "a", "text": "b", "title": 1}', r"t:1: wanted a string in"),
    (texts, ".I 1\n.W\nx\n.I\n", r"t:4: wanted a number after .I without"),
    (judgments.read, "1 d 2 1 .5\n1 e x 1 .5\n", r"t:2: wanted a whole number"),
    (cisi, "1 28 0 0.0\n1 28\n", r"t:2: wanted 4 columns \(cisi\)"),
    (cranfield, ".I 1\n.W\na\n.I 2\n.W\n", r"t:4: wanted a text for query"),
]


@pytest.mark.parametrize(("read", "text", "message"), BAD)
def test_a_bad_line_is_named(tmp_path, read, text, message):
    with pytest.raises(UserError, match=message) as caught:
        read(put(tmp_path, "t", text))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["t.xz", "T.XZ"])
def test_a_packed_file_is_known_in_any_case(tmp_path, name):
    """In capitals its bytes were said to be no UTF-8."""
    (tmp_path / name).write_bytes(lzma.compress(b"1:a\n"))
    assert [*lines.read(str(tmp_path / name), "f")] == [(1, "1:a")]


def test_damaged_and_missing_files_are_named(tmp_path):
    path = tmp_path / "t.xz"
    path.write_bytes(lzma.compress(b"1:a\n" * 999)[:40])
    with pytest.raises(UserError, match=r"t.xz: damaged or cut after line"):
        topics.read(str(path))
    for path in (str(tmp_path / "none"), "ram://none/a"):
        message = f"--topics_file={path} cannot be read: No such file"
        with pytest.raises(UserError, match=message):
            topics.read(path)
    with pytest.raises(UserError, match="--documents=.* matches no file"):
        texts(str(tmp_path / "none*"))


def write(folder, text):
    path = folder / "x.smart"
    path.write_text(text)
    return str(path)


def test_a_field_that_comes_twice_is_one_text(tmp_path):
    path = write(tmp_path, ".I 7\n.T\na\n b \n.W\nc\n.T\nd\n.I 012\n.W\n\ne\n")
    assert list(lines.texts(path, "--x", "TW")) == [
        (1, "7", "a\n b \nd\nc"),
        (9, "012", "e"),
    ]


def test_texts_take_the_fields_in_the_order_that_is_asked_for(tmp_path):
    path = write(tmp_path, ".X\n.I 1\n.T\nt\n.A\nwho\n.W\nw\n.I 2\n.W\nv\n")
    assert list(lines.texts(path, "--x", "WT")) == [
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
        list(lines.texts(write(tmp_path, text), "--x", "TW"))
