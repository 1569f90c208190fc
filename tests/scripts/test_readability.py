"""What counts as a sentence of a page, and its measures."""

import statistics
import sys

import pytest

from scripts import readability
from tests.conftest import ROOT

PAGE = """# Not a sentence here

Give `python -m data.inspect --data_dir=R` a folder. See
[the page](x.md), e.g. this one.

| not | here |

    nor this one

- One item is a paragraph
- Two.

**Bold ends here.** The next one (in brackets.) And a third.
"""


def test_tables_code_and_headings_do_not_count():
    found = [" ".join(words) for words in readability.sentences(PAGE)]
    assert found == [
        "Give CODE a folder.",
        "See the page, e.g. this one.",
        "One item is a paragraph",
        "**Bold ends here.",
        "The next one (in brackets.",
        "And a third.",
    ]


def test_a_cell_of_a_table_holds_one_or_two_facts():
    wrong = [
        (path.name, parts)
        for path in readability.pages(ROOT)
        for parts in readability.cells(path.read_text(encoding="utf-8"))
        if len(parts) > 2 or sum(len(s.split()) for s in parts) > 25
    ]
    assert not wrong


def test_cells_are_cut_into_facts():
    page = "| a | `x|y; z` is |\n|---|---|\n| b; c. Then d | [e; f](g.md) |\n"
    assert [len(parts) for parts in readability.cells(page)] == [1, 1, 3, 2]


def test_no_page_has_long_sentences():
    """CONTRIBUTING.md's rule: a median of 16 words, none above 30."""
    found = {}
    for path in readability.pages(ROOT):
        lengths = [
            len(words)
            for words in readability.sentences(path.read_text(encoding="utf-8"))
        ]
        if lengths and (statistics.median(lengths) > 16 or max(lengths) > 30):
            found[path.name] = statistics.median(lengths), max(lengths)
    assert not found


def test_measures_by_hand():
    found = [["a"] * 31, ["word"] * 3]
    count, median, over, longest, flesch = readability.measures(
        found, lambda word: 2
    )
    assert (count, median, over, longest) == (2, 17.0, 0.5, 31)
    assert flesch == pytest.approx(206.835 - 1.015 * 17 - 84.6 * 2, abs=0.05)


def test_what_is_missing_is_said(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "pyphen", None)  # as if not installed
    monkeypatch.setattr(sys, "argv", ["readability.py", str(ROOT)])
    with pytest.raises(SystemExit, match="requirements-docs"):
        readability.main()
    monkeypatch.setattr(sys, "argv", ["readability.py", str(tmp_path)])
    with pytest.raises(SystemExit, match="2"):
        readability.main()
    said = capsys.readouterr().err
    assert said.endswith(f"wanted a folder with docs/, found {tmp_path}\n")
