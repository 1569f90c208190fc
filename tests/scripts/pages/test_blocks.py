"""Files of measured tables: what is read is what was written."""

import pytest

from scripts.pages.blocks import Block, read_file
from tests.conftest import ROOT

FILES = sorted((ROOT / "docs/measured/tables").glob("*.tsv"))
TEXT = """# Words before the first table are no part of it.
# table: speed
# command: python -m benchmarks.compare --suites=small: all
# since: 1.2
model\ttokens/s

xlnet\t# 7

# table: empty cells
name\t\tlast
\t1\t
"""


def test_a_file_holds_tables_with_their_facts(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text(TEXT, encoding="utf-8")
    assert list(read_file(path).values()) == [
        Block(
            "speed",
            {
                "command": "python -m benchmarks.compare --suites=small: all",
                "since": "1.2",
            },
            [["model", "tokens/s"], ["xlnet", "# 7"]],
        ),
        Block("empty cells", {}, [["name", "", "last"], ["", "1", ""]]),
    ]
    assert list(read_file(path)) == ["speed", "empty cells"]


def test_what_is_written_is_read_again(tmp_path):
    path = tmp_path / "a.tsv"
    blocks = [
        Block("a b", {"command": "x: y", "z": ""}, [["h"], ["1 ± 2"]]),
        Block("c", {}, [["h", "i"]]),
    ]
    path.write_text("\n".join(map(str, blocks)), encoding="utf-8")
    assert list(read_file(path).values()) == blocks


@pytest.mark.parametrize("text", [None, "", "# no table\nx\ty\n"])
def test_a_file_without_tables(tmp_path, text):
    path = tmp_path / "a.tsv"
    if text is not None:
        path.write_text(text)
    assert read_file(path) == {}


def test_every_table_of_the_pages_is_rectangular():
    assert len(FILES) > 5
    for path in FILES:
        for block in read_file(path).values():
            widths = {len(row) for row in block.rows}
            assert len(widths) == 1, (path.name, block.name)
            assert block.facts["command"], (path.name, block.name)
