"""Measured tables of the pages: each is a block of a file in docs/measured.

python scripts/measured_tables.py           # writes the tables into the pages
python scripts/measured_tables.py --read    # writes the files from the pages

`<!-- measured: NAME -->` stands before a table of a page. Its numbers are the
block NAME of `docs/measured/tables/PAGE.tsv`, which also says by which command
they were measured, and since which revision the pages have them.
`<!-- measured: PAGE/NAME of A, B -->` shows rows of another page's block: those
whose first cell is A or B; without `of` all of them.
"""

import argparse
import dataclasses
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from scripts.pages.blocks import Block, read_file  # noqa: E402

DOCS = ROOT / "docs"
FOLDER = DOCS / "measured" / "tables"
FACTS = ("command", "since")
_TABLE = re.compile(
    r"(<!-- measured: (\S+?)(?: of (.+))? -->\n\n)((?:\|.*\n)+)"
)
_BAR = re.compile(r"(?<!\\)\|")


def pages() -> list[pathlib.Path]:
    """Those that have such a table."""
    paths = sorted(DOCS.rglob("*.md"))
    return [p for p in paths if _TABLE.search(p.read_text(encoding="utf-8"))]


def file_of(page: pathlib.Path) -> pathlib.Path:
    """The file with a page's numbers."""
    return FOLDER / f"{page.stem}.tsv"


def rows_of(table: str) -> list[list[str]]:
    """The cells of a table of a page."""
    lines = [line.strip().strip("|") for line in table.splitlines()]
    del lines[1]  # the rule below the head
    return [[cell.strip() for cell in _BAR.split(line)] for line in lines]


def table_of(rows: list[list[str]]) -> str:
    """As a page has it."""
    lines = [f"| {' | '.join(row)} |".replace("|  |", "| |") for row in rows]
    lines = [re.sub(r"\|  (?=\|)", "| ", line) for line in lines]
    lines.insert(1, "|" + "---|" * len(rows[0]))
    return "\n".join(lines) + "\n"


def written(page: pathlib.Path) -> str:
    """The text of a page with the numbers of its file."""

    def table(match: re.Match) -> str:
        *other, name = match[2].split("/")
        path = FOLDER / f"{other[0]}.tsv" if other else file_of(page)
        head, *rows = read_file(path)[name].rows
        if match[3]:
            wanted = match[3].split(", ")
            rows = [row for row in rows if row[0].strip("*") in wanted]
        return match[1] + table_of([head, *rows])

    return _TABLE.sub(table, page.read_text(encoding="utf-8"))


def read(page: pathlib.Path) -> str:
    """The text of a page's file with the numbers of the page.

    Blocks that the page shows of other files are not among them.
    """
    known = read_file(file_of(page))
    blocks = []
    for _, name, _, table in _TABLE.findall(page.read_text(encoding="utf-8")):
        if "/" in name:
            continue
        old = known.get(name, Block(name, dict.fromkeys(FACTS, ""), []))
        blocks.append(dataclasses.replace(old, rows=rows_of(table)))
    return "\n".join(map(str, blocks))


def main() -> None:
    """Writes the pages, or with --read the files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--read", action="store_true", help="write the files from the pages"
    )
    reads = parser.parse_args().read
    FOLDER.mkdir(exist_ok=True)
    for page in pages():
        if not reads:
            page.write_text(written(page), encoding="utf-8")
        elif text := read(page):
            file_of(page).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
