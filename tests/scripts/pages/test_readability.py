"""What counts as a sentence of a page, and its measures."""

import pytest

from scripts import readability

PAGE = """# Not a sentence here

Give `python -m data.inspect --data_dir=R` a folder. See
[the page](x.md), e.g. this one.

| not | here |

    nor this one

- One item is a paragraph
- Two.
"""


def test_tables_code_and_headings_do_not_count():
    found = [" ".join(words) for words in readability.sentences(PAGE)]
    assert found == [
        "Give CODE a folder.",
        "See the page, e.g. this one.",
        "One item is a paragraph",
    ]


def test_measures_by_hand():
    found = [["a"] * 31, ["word"] * 3]
    count, median, over, longest, flesch = readability.measures(
        found, lambda word: 2
    )
    assert (count, median, over, longest) == (2, 17.0, 0.5, 31)
    assert flesch == pytest.approx(206.835 - 1.015 * 17 - 84.6 * 2, abs=0.05)
