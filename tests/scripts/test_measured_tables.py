"""Measured tables: the pages have the numbers of the files."""

import re

import pytest

from scripts import measured_tables

PAGE = """Text.

<!-- measured: speed -->

| | s | or `a\\|b` |
|---|---|---|
| one | 1.5 | |
| | 2 | x |

| other | table |
|---|---|
| 1 | 2 |
"""


@pytest.fixture
def page(tmp_path, monkeypatch):
    monkeypatch.setattr(measured_tables, "FOLDER", tmp_path)
    path = tmp_path / "a.md"
    path.write_text(PAGE)
    return path


def test_there_and_back(page):
    text = measured_tables.read(page)
    assert text == (
        "# table: speed\n# command: \n# since: \n\ts\tor `a\\|b`\n"
        "one\t1.5\t\n\t2\tx\n"
    )
    file = measured_tables.file_of(page)
    file.write_text(text.replace("command: ", "command: python -m x"))
    assert measured_tables.written(page) == PAGE
    file.write_text(file.read_text().replace("1.5", "1.25"))
    assert "| one | 1.25 | |" in measured_tables.written(page)
    page.write_text(PAGE.replace("1.5", "7"))
    assert "python -m x" in measured_tables.read(page)
    assert "one\t7\t" in measured_tables.read(page)


def test_a_page_shows_rows_of_another_pages_file(page, tmp_path):
    measured_tables.file_of(page).write_text(measured_tables.read(page))
    other = tmp_path / "b.md"
    other.write_text("<!-- measured: a/speed of one -->\n\n| x |\n|---|\n")
    head = "| | s | or `a\\|b` |\n|---|---|---|\n"
    mark = "<!-- measured: a/speed of one -->\n\n"
    assert measured_tables.written(other) == f"{mark}{head}| one | 1.5 | |\n"
    assert measured_tables.read(other) == ""
    other.write_text("<!-- measured: a/speed -->\n\n| x |\n|---|\n")
    assert "| | 2 | x |\n" in measured_tables.written(other)


def test_the_pages_are_current():
    pages = measured_tables.pages()
    assert len(pages) > 8
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert measured_tables.written(page) == text, "run the script"


def test_every_table_of_a_study_has_its_command_and_date():
    for page in measured_tables.pages():
        for block in measured_tables.read_file(
            measured_tables.file_of(page)
        ).values():
            assert re.search(r"python|bash|profiler", block.facts["command"])
            assert re.match(r"\d{4}-\d\d-\d\d", block.facts["since"]), block
