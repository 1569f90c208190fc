"""Encodings, line ends and ends of files: each is named with what to do."""

import gzip
import io
import json
import re

import pytest

from common.errors import UserError
from common.process import memory
from data.finetuning.classifier import glue as glue_tasks
from data.finetuning.classifier import sources as classifier_sources
from data.finetuning.examples import BadRows
from data.finetuning.options import ClassifierDataOptions
from data.finetuning.race import examples as race_examples
from data.finetuning.squad import examples as squad_examples
from data.finetuning.tables import table_files
from data.finetuning.tagging import examples as tagging
from serving.exported import input_rows
from serving.options import PredictOptions
from tests.serving.exported.fake_models import FakeModel

ROWS = {
    "csv": "text,label\ncafé,x\nthé,y\n",
    "tsv": "text\tlabel\ncafé\tx\nthé\ty\n",
    "jsonl": '{"text": "café", "label": "x"}\n{"text": "thé", "label": "y"}\n',
    "conll": "café X\nthé Y\n\nau X\n",
    "txt": "café\nthé\n",
    "glue": "sentence\tlabel\ncafé\t1\nthé\t0\n",
    "topic": '"1","café"\n"2","thé"\n',
    "json": json.dumps({"data": "é\n"}, indent=1),
}


def read(kind, path, skip=False):
    """Texts of a file, by the reader of its kind."""
    path, bad = str(path), BadRows(skip)
    if kind == "conll":
        return [e.text for e in tagging.read(path, bad)]
    if kind == "txt":
        asked = PredictOptions("model", input_file=path)
        rows = input_rows.read_rows(FakeModel().inputs(), {}, asked)
        found = []
        for row in rows:
            if row.problem and not skip:
                raise UserError(row.problem)
            found.append(row.inputs and row.inputs["text"])
        return found
    if kind == "json":
        return table_files.read_json(path)
    if kind == "glue":
        task = glue_tasks.GLUE["sst-2"]
        found = glue_tasks.read_split(task, path, "dev", bad)
    elif kind == "topic":
        known = {"1": 0, "2": 1}
        found = classifier_sources.read_topic_csv(path, known, bad, 1, "json")
    else:
        found = classifier_sources.read_table(
            path, ClassifierDataOptions("tsv", "d"), bad, None, True
        )
    return [e.texts[0] for e in found]


def file_of(tmp_path, kind, content):
    ending = {"glue": "tsv", "topic": "csv"}.get(kind, kind)
    path = tmp_path / f"a.{ending}"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("kind", ROWS)
def test_utf16_is_named_and_its_command_helps(tmp_path, kind, encoding):
    wanted = read(kind, file_of(tmp_path, kind, ROWS[kind].encode()))
    path = file_of(tmp_path, kind, ROWS[kind].encode(encoding))
    for skip in (False, True):
        with pytest.raises(UserError, match=":1: the file .*UTF-16") as e:
            read(kind, path, skip)
    name = re.search("iconv -f (UTF-16[A-Z]*)", str(e.value))[1]
    path.write_bytes(path.read_bytes().decode(name).encode())
    assert read(kind, path) == wanted


@pytest.mark.parametrize("kind", ROWS)
def test_latin1_is_named_with_its_line(tmp_path, kind):
    path = file_of(tmp_path, kind, ROWS[kind].encode("latin-1"))
    if kind == "json":
        path.write_bytes('{\n"data": "é"}'.encode("latin-1"))
    line = {"conll": 1, "txt": 1, "topic": 1, "jsonl": 1}.get(kind, 2)
    with pytest.raises(
        UserError,
        match=rf"a\.\w+:{line}: no valid UTF-8 .*\(0xe9 after .*, in Latin-1 "
        "'é'\\); convert the file: iconv -f latin1 -t utf-8",
    ):
        read(kind, path)


LINES = [kind for kind in ROWS if kind != "json"]


@pytest.mark.parametrize("kind", LINES)
def test_lines_that_end_with_cr_alone_are_named(tmp_path, kind):
    content = ROWS[kind].encode().replace(b"\n", b"\r")
    for end in (b"", b"\n"):
        path = file_of(tmp_path, kind, content + end)
        for skip in (False, True):
            with pytest.raises(UserError, match=r":1: lines end with CR alone"):
                read(kind, path, skip)
    # Such line ends inside a file of others are text.
    path = file_of(tmp_path, kind, ROWS[kind].encode())
    wanted = read(kind, path)
    path.write_bytes(ROWS[kind].replace("\n", "\r\n").encode())
    assert read(kind, path) == wanted


def test_json_may_have_any_line_ends(tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes(b'{"data":\r1}')
    assert table_files.read_json(str(path)) == {"data": 1}


@pytest.mark.parametrize("kind", LINES)
def test_blank_lines_at_the_end_are_no_rows(tmp_path, kind):
    wanted = read(kind, file_of(tmp_path, kind, ROWS[kind].encode()))
    for end in (b"\n", b"\r\n", b"\n  \n\n"):
        path = file_of(tmp_path, kind, ROWS[kind].encode() + end)
        assert read(kind, path) == wanted


def test_what_a_packed_file_unpacks_to_is_not_held(tmp_path, monkeypatch):
    """Lines that do not end and millions of blank ones."""
    monkeypatch.setattr(table_files, "MAX_LINE_BYTES", 100)
    monkeypatch.setattr(table_files, "_BLOCK", 64)
    lines = (b"a", b"b" * 1000, b"c", b"d" * 101, b"", b" ", b" ", b"", b"e")
    for last in (b"\n", b"f" * 1000, b"\n" * 500):
        path = tmp_path / "a.tsv.gz"
        path.write_bytes(gzip.compress(b"\n".join(lines) + last))
        stream = io.BytesIO(last)
        held = max(map(len, table_files._byte_lines(b"x", stream, 100)))
        assert held < 200
        found = list(table_files.numbered_lines(str(path)))
        long = "line of more than 0 MiB"
        wanted = ["a", long, "c", long, "", " ", " ", "", "e"]
        if last[:1] == b"f":
            wanted[-1] = long
        assert [problem or text for _, text, problem in found] == wanted
        assert [number for number, *_ in found] == list(range(1, 10))


def test_a_key_that_is_there_twice_is_refused(tmp_path):
    """The last one would count: half of the questions were gone."""
    path = tmp_path / "a.json"
    path.write_text('{"data": [{"title": "a"}], "data": []}')
    with pytest.raises(UserError, match="has the key 'data' twice") as e:
        table_files.read_json(str(path))
    assert str(e.value).startswith(f"{path}: no valid JSON")
    path.write_text('{"text": "a", "label": "b"}\n{"text": "c", "text": "d"}\n')
    bad = BadRows(skip=True)
    rows = list(table_files.read_jsonl(str(path), bad))
    assert rows == [(f"{path}:1", {"text": "a", "label": "b"})]
    assert bad.count == 1 and "the key 'text' twice" in bad.shown[0]


def test_one_json_value_may_be_one_long_line(tmp_path, monkeypatch):
    """As SQuAD's training files, of 30 and 42 MB, are."""
    path = tmp_path / "a.json.gz"
    value = {"data": "a" * (17 << 20)}
    path.write_bytes(gzip.compress(json.dumps(value).encode(), 1))
    assert table_files.read_json(str(path)) == value
    monkeypatch.setattr(table_files, "MAX_VALUE_BYTES", 1 << 20)
    with pytest.raises(UserError, match="json.gz:1: line of more than 1 MiB"):
        table_files.read_json(str(path))
    path.write_bytes(gzip.compress(b" " * 99 + b"\n") * (1 << 14))
    with pytest.raises(UserError, match="at most 1 MiB in one file"):
        table_files.read_json(str(path))


def test_many_lines_of_one_value_are_kept_together(tmp_path, monkeypatch):
    """A list of millions of empty lines would take eight bytes for each."""
    monkeypatch.setattr(table_files, "_TOGETHER", 4)
    path = tmp_path / "a.json"
    for count in (0, 3, 4, 5, 8, 9):
        path.write_text("{\n" + "\n" * count + '"a": 1}')
        text = table_files.read_text(str(path), BadRows())
        assert text == path.read_text()
    monkeypatch.setattr(memory, "_SMALL_JSON", 1)
    monkeypatch.setattr(memory, "room", lambda: (0.0, "the machine"))
    with pytest.raises(UserError, match="a.json: its JSON may become"):
        table_files.read_json(str(path))


def test_a_missing_file_is_named_in_a_bucket_too(tmp_path):
    for path in (f"{tmp_path}/a.tsv", "ram://none/a.tsv"):
        with pytest.raises(UserError, match="a.tsv is not a file that can be"):
            list(table_files.numbered_lines(path))


def test_files_without_rows(tmp_path):
    for kind, content in (("csv", "text,label\n"), ("tsv", "text\tlabel\n\n")):
        path = file_of(tmp_path, kind, content.encode())
        with pytest.raises(UserError, match=":1: the file holds its header an"):
            read(kind, path)
    for kind in ("csv", "tsv", "jsonl"):
        path = file_of(tmp_path, kind, b"\n")
        with pytest.raises(UserError, match=":1: the file "):
            read(kind, path)
    path = file_of(tmp_path, "csv", b"text,label\n")
    asked = PredictOptions("model", input_file=str(path))
    with pytest.raises(UserError, match="a.csv:1: the file holds no row below"):
        list(input_rows.read_rows(FakeModel().inputs(), {}, asked))


def test_packed_and_json_readers_name_the_encoding(tmp_path):
    path = tmp_path / "a.tsv.gz"
    path.write_bytes(gzip.compress(ROWS["tsv"].encode("utf-16")))
    with pytest.raises(UserError, match="UTF-16"):
        read("tsv", path)
    path = tmp_path / "dev.json"
    path.write_bytes(json.dumps({"data": []}).encode("utf-16"))
    with pytest.raises(UserError, match="UTF-16"):
        squad_examples.read_squad(str(path), False, BadRows())
    folder = tmp_path / "train" / "high"
    folder.mkdir(parents=True)
    (folder / "1.txt").write_bytes("{}".encode("utf-16"))
    with pytest.raises(UserError, match="UTF-16"):
        race_examples.read_race(str(tmp_path), "train", BadRows(skip=True))


@pytest.mark.parametrize("name", ["ROWS.CSV.GZ", "rows.csv.Gz"])
def test_a_packed_file_may_have_its_ending_in_capitals(tmp_path, name):
    """It was said to have the line ends of old Macintoshes."""
    path = tmp_path / name
    path.write_bytes(gzip.compress(ROWS["csv"].encode()))
    assert [
        text for _, text in table_files.read_lines(str(path), BadRows())
    ] == (ROWS["csv"].splitlines())


def test_hidden_files_are_no_texts(tmp_path):
    """Archives from macOS have a `._1.txt` beside each file."""
    folder = tmp_path / "train" / "high"
    folder.mkdir(parents=True)
    for name in ("2.txt", "1.txt", "1.json"):
        (folder / name).write_text("a")
    (folder / "._1.txt").write_bytes(b"\0\5\26\7")
    assert table_files.text_files(str(folder)) == ["1.txt", "2.txt"]
    assert table_files.text_files(str(folder / "1.txt")) is None


def test_the_hash_is_of_what_a_file_holds(tmp_path):
    plain, packed = tmp_path / "a.json", tmp_path / "b.json.gz"
    plain.write_bytes(b"{}")
    packed.write_bytes(gzip.compress(b"{}"))
    found = table_files.hash_content(str(plain))
    assert found == table_files.hash_content(str(packed))
    assert found == table_files.hash_content(str(tmp_path / "b.json"))
    assert table_files.hash_content(str(tmp_path)) is None


def test_a_number_of_thousands_of_digits_is_named(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('{"data": ' + "9" * 5000 + "}")
    with pytest.raises(UserError, match="a.json: no valid JSON .*4300 digits"):
        table_files.read_json(str(path))


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("value", [[{"text": "a"}, {"text": "b"}], {"a": 1}])
def test_json_that_is_no_lines_names_the_way_out(tmp_path, value, indent):
    path = tmp_path / "a.json"
    path.write_text(json.dumps(value, indent=indent))
    bad = BadRows(skip=True)
    rows = list(table_files.read_jsonl(str(path), bad))
    if (value, indent) == ({"a": 1}, None):
        assert rows == [(f"{path}:1", value)] and not bad.count
        return
    assert "a.json:1: " in bad.shown[0] and bad.shown[0].endswith("lines=True)")


def test_rows_that_an_annotator_refused_are_left_out(tmp_path):
    """Prodigy exports every row; `answer` of other files is any column."""
    path = tmp_path / "a.jsonl"
    answers = ("accept", "reject", "ignore")
    rows = [{"text": a, "_task_hash": 7, "answer": a} for a in answers]
    rows += [
        {"text": "new", "_task_hash": 7},
        {"text": "x", "answer": "reject"},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    bad = BadRows()
    found = table_files.read_accepted(str(path), bad)
    assert [value["text"] for _, value in found] == ["accept", "new", "x"]
    assert bad.summary().endswith(
        "2 rows without the answer 'accept' are left out"
    )
    assert len(list(table_files.read_jsonl(str(path), bad))) == len(rows)


def test_half_a_surrogate_pair_is_no_text(tmp_path):
    """Two halves are one character; the others are named with their field."""
    rows = [
        {"text": "good \U0001f600", "label": "x"},
        {"text": "bad \ud83d end", "label": "x"},
        {"text": "good", "label": "x", "tags": [{"of": "\ude00"}]},
    ]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(
        UserError, match=r"a.jsonl:2: .*'text': \\ud83d is half"
    ):
        list(table_files.read_jsonl(str(path), BadRows()))
    bad = BadRows(skip=True)
    found = table_files.read_jsonl(str(path), bad)
    assert [value for _, value in found] == rows[:1]
    assert "a.jsonl:3: the field 'tags': \\ude00 is half" in bad.summary()


def test_a_row_with_a_key_twice_is_reported(tmp_path):
    """The last value counted, in silence."""
    path = tmp_path / "rows.jsonl"
    path.write_text('{"text": "a"}\n{"text": "a", "text": "b"}\n')
    bad = BadRows(skip=True)
    rows = list(table_files.read_jsonl(str(path), bad))
    assert [row for _, row in rows] == [{"text": "a"}]
    (problem,) = bad.shown
    assert "rows.jsonl:2: no valid JSON" in problem and "'text'" in problem
