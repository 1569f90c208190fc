"""docs/explanation/model.md leads to files that are there."""

import re

from tests.conftest import ROOT


def test_the_reading_order_names_files_that_exist():
    page = (ROOT / "docs/explanation/model.md").read_text()
    order = page.split("## Reading order")[1].split("\n## ")[0]
    paths = [
        path
        for row in re.findall(r"^\| (`.*?) \|", order, re.M)
        for path in re.findall(r"`([^`]+)`", row)
    ]
    assert len(paths) > 20
    missing = [p for p in paths if not (ROOT / "modeling" / p).is_file()]
    assert missing == []


def test_the_tests_that_the_page_names_exist():
    page = (ROOT / "docs/explanation/model.md").read_text()
    names = re.findall(r"`(?:tests/modeling/)?((?:\w+/)?test_\w+\.py)`", page)
    assert len(names) > 4
    folder = ROOT / "tests" / "modeling"
    places = (folder, ROOT)
    assert [
        n for n in names if not any((p / n).is_file() for p in places)
    ] == []
