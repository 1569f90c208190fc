"""Every reason leaves out what it should, and nothing else changes."""

import errno
import json
import os
import sys

import pytest

from common.errors import UserError
from data.corpus import document_filter
from data.corpus.document_filter import REASONS, Report
from data.corpus.options import FilterOptions
from tests.data.corpus.toy_texts import (
    changed,
    corpus_with_every_reason,
    prose,
    write,
)


def run(path, **options):
    output = path.parent / "clean.txt"
    values = {"input_glob": str(path), "output_file": str(output)} | options
    report = document_filter.filter_corpus(FilterOptions(**values))
    if values["output_file"] != str(output):
        return report, None
    return report, output.read_text("utf-8")


OPTIONS = {
    "languages": ("en",),
    "min_characters": 100,
    "near_duplicates": 0.8,
    "boilerplate_documents": 4,
}


def test_each_document_is_left_out_for_its_reason(tmp_path):
    documents, fates = corpus_with_every_reason()
    path = write(tmp_path / "in.txt", documents)
    report, text = run(path, examples=9, **OPTIONS)
    found = report.as_dict()
    for reason in document_filter.REASONS:
        assert found["left_out"][reason]["documents"] == fates.count(reason)
        assert found["left_out"][reason]["documents"] > 0, reason
    lines = path.read_text("utf-8").split("\n")
    for reason, about in found["left_out"].items():
        for example in about["examples"]:
            number = int(example["place"].rsplit(" ", 1)[1])
            assert lines[number - 1].startswith(example["begins"][:60])
            first = documents[fates.index(reason)][0][:60]
            assert example["begins"].startswith(first)
    kept = [d for d, f in zip(documents, fates, strict=True) if f == "kept"]
    assert text == "".join("\n".join(lines) + "\n\n" for lines in kept)
    stored = json.loads((tmp_path / "clean.txt.report.json").read_text())
    assert stored == json.loads(json.dumps(found))
    total = sum(a["characters"] for a in found["left_out"].values())
    assert total + found["kept"]["characters"] == found["characters"]


@pytest.mark.long
def test_workers_and_blocks_change_no_byte(tmp_path):
    documents, _ = corpus_with_every_reason()
    documents += [prose(i) for i in range(40, 70)] + [prose(50)]
    path = write(tmp_path / "in.txt", documents)
    report, text = run(path, **OPTIONS)
    first = report.as_dict()
    for change in (
        {"block_bytes": 900},
        {"block_bytes": 900, "num_workers": 2},
    ):
        again, same = run(path, **OPTIONS | change)
        assert same == text
        assert again.as_dict()["left_out"] == first["left_out"]


def test_each_filter_can_be_off(tmp_path):
    documents, fates = corpus_with_every_reason()
    path = write(tmp_path / "in.txt", documents)
    off = {
        "min_characters": 0,
        "max_symbol_ratio": 1.0,
        "max_repeated_lines": 1.0,
        "near_duplicates": 1.0,
        "max_boilerplate": 1.0,
    }
    report, _ = run(path, **off)
    assert report.documents["kept"] == len(documents) - 1
    assert report.documents["exact_duplicate"] == 1


def test_copies_of_a_document_do_not_make_it_boilerplate(tmp_path):
    one, other = prose(1), prose(2, 40)
    documents = [one] * 30 + [changed(other, i % 3) for i in range(30)]
    path = write(tmp_path / "in.txt", documents)
    report, text = run(path, boilerplate_documents=5)
    other = changed(other, 0)
    assert text == "\n".join(one) + "\n\n" + "\n".join(other) + "\n\n"
    assert report.documents["boilerplate"] == 0


def test_paragraph_ends_and_jsonl(tmp_path):
    path = tmp_path / "in.jsonl"
    text = "One line. <eop>\nTwo. \nThree.<eop>"
    rows = [{"text": text, "id": 3}, {"text": "x"}]
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    _, found = run(path, min_characters=5)
    assert found == text + "\n\n"
    output = str(tmp_path / "clean.jsonl")
    run(path, min_characters=5, output_file=output)
    with open(output) as f:
        assert [json.loads(line) for line in f] == rows[:1]
    plain = tmp_path / "in.txt"
    plain.write_text(text + "\n")
    run(plain, min_characters=5, output_file=output)
    with open(output) as f:
        assert [json.loads(line) for line in f] == [{"text": text}]


def test_lines_of_json_stay_as_they_are(tmp_path):
    """Other fields and empty lines were gone."""
    rows = [
        '{"id": 7, "text": "One.\\n\\n  Two. <eop> ", "url": "caf\\u00e9"}',
        '{"text": "x"}',
        '{"text": "Three, which is longer.", "n": [1.50, null]}',
    ]
    path = tmp_path / "in.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n\r\n".join(rows).encode())
    output = tmp_path / "out.jsonl"
    for size in (1 << 20, 8):
        names = {"output_file": str(output), "block_bytes": size}
        run(path, min_characters=5, near_duplicates=1.0, **names)
        assert output.read_text() == f"{rows[0]}\n{rows[2]}\n"


def test_the_text_keeps_its_field(tmp_path):
    path = tmp_path / "in.jsonl"
    row = {"body": "One line.", "text": "other"}
    path.write_text(json.dumps(row) + "\n")
    output = tmp_path / "out.jsonl"
    run(
        *(path,),
        min_characters=5,
        text_field="body",
        output_file=str(output),
    )
    assert json.loads(output.read_text()) == row
    plain = write(tmp_path / "in.txt", [prose(1)])
    output.unlink()  # that of JSON lines has the field
    run(plain, text_field="body", output_file=str(output))
    assert list(json.loads(output.read_text().splitlines()[0])) == ["body"]
    with pytest.raises(UserError, match="--text_field=body is of JSON lines"):
        run(plain, text_field="body", output_file=str(tmp_path / "out.txt"))
    assert not (tmp_path / "out.txt").exists()


@pytest.mark.parametrize("output", ["in.txt", "./in.txt", "link.txt", "in"])
def test_the_input_is_not_replaced(tmp_path, monkeypatch, output):
    monkeypatch.chdir(tmp_path)
    path = write(tmp_path / "in.txt", [prose(1)])
    (tmp_path / "link.txt").symlink_to(path)
    write(tmp_path / "in.report.json", [prose(2)])
    before = path.read_bytes()
    pattern = "in.txt,in.report.json"
    with pytest.raises(UserError, match="would replace the input"):
        run(path, input_glob=pattern, output_file=output, text_field="a")
    assert path.read_bytes() == before


def test_errors_leave_nothing(tmp_path, monkeypatch):
    path = write(tmp_path / "in.txt", [prose(1), ["short"]])
    with pytest.raises(UserError, match="no document is left"):
        run(path, min_characters=10_000)
    with pytest.raises(UserError, match="--languages: unknown xx; wanted"):
        run(path, languages=("en", "xx"))
    for options, message in (
        ({"dry_run": True}, "either --output_file or --dry_run"),
        ({"output_file": ""}, "either --output_file or --dry_run"),
        ({"output_file": "a.gz"}, "without .gz"),
        ({"near_duplicates": 0.0}, "--near_duplicates must be in \\(0, 1]"),
    ):
        with pytest.raises(UserError, match=message):
            run(path, **options)
    monkeypatch.setitem(sys.modules, "datasketch", None)
    with pytest.raises(UserError, match="-r requirements-corpus.txt"):
        run(path)
    path.write_bytes(path.read_bytes() + b"na\xefve\n")
    with pytest.raises(UserError, match=r"in.txt: line 12: not UTF-8"):
        run(path, near_duplicates=1.0)
    assert [p.name for p in tmp_path.iterdir()] == ["in.txt"]


def test_a_report_that_cannot_be_written_leaves_no_text(tmp_path, monkeypatch):
    """The text was there as if finished, without the report of it."""
    path = write(tmp_path / "in.txt", [prose(1)])

    def full(name, value):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)

    monkeypatch.setattr(document_filter.files, "write_json", full)
    with pytest.raises(OSError, match="No space left"):
        run(path, near_duplicates=1.0)
    assert [p.name for p in tmp_path.iterdir()] == ["in.txt"]


def report(**options):
    values = {"input_glob": "x", "output_file": "y"} | options
    found = Report(FilterOptions(**values))
    found.keep(70, "a.txt")
    found.keep(10, "b: line 1.txt")
    for number in range(3):
        place = f"b: line 1.txt: line {number}"
        found.add("short", 4 + number, place, f"{number} letters", "Begin")
    found.add("language", 5, "a.txt: line 9", "language de", "Die")
    return found


def test_documents_and_characters_are_counted_by_reason():
    value = report(examples=2, languages=("en",)).as_dict()
    assert (value["documents"], value["characters"]) == (6, 100)
    assert value["kept"] == {"documents": 2, "characters": 80}
    assert list(value["left_out"]) == list(REASONS)
    short = value["left_out"]["short"]
    assert (short["documents"], short["characters"]) == (3, 15)
    assert [e["why"] for e in short["examples"]] == ["0 letters", "1 letters"]
    assert value["left_out"]["symbols"]["documents"] == 0
    assert value["options"]["languages"] == ["en"]
    assert "output_file" not in value["options"]


def test_a_file_is_what_stands_before_the_last_line_number():
    by_file = report().by_file
    assert dict(by_file["a.txt"]) == {"kept": 70, "language": 5}
    assert dict(by_file["b: line 1.txt"]) == {"kept": 10, "short": 15}


def test_lines_for_the_terminal_have_shares_and_examples():
    lines = list(report(examples=1).lines(examples=True))
    assert lines[1].split() == ["kept", "2", "80", "80.0%"]
    assert lines[2].split() == ["short", "3", "15", "15.0%"]
    assert lines[3] == "    b: line 1.txt: line 0: 0 letters"
    assert lines[4].strip() == "Begin"
    assert len(list(report().lines(examples=False))) == 2 + len(REASONS)
    empty = Report(FilterOptions(input_glob="x", output_file="y"))
    assert "0.0%" in list(empty.lines(examples=False))[1]
