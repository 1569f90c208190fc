"""Counts, examples and lines of what was left out of a corpus."""

from data.corpus.filter_report import REASONS, Report
from data.corpus.options import FilterOptions


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
