"""Marks of commands that no test runs, on the pages beside them.

    python -m tests.scripts.pages.marks    # writes them into the pages

The reasons are those of `guide_commands.toml`. A mark is a line of its own
behind the paragraph, block or table that has the commands.
"""

import pathlib
import re

from tests.conftest import ROOT
from tests.helpers import pages
from tests.scripts.pages import guide_commands

_MARK = re.compile(r"^\*No test runs .*\*\n\n?", re.M)


def marked_pages() -> list[pathlib.Path]:
    """README.md, the tutorials and the guides, without the notebooks."""
    names = {command.page for command in guide_commands.listed()}
    return [ROOT / name for name in sorted(names)]


def chunks(text: str) -> list[str]:
    """Paragraphs, tables and blocks of code; blank lines stay at their ends."""
    found = [""]
    fenced = False
    for line in text.splitlines(keepends=True):
        if found[-1].endswith("\n\n") and line.strip() and not fenced:
            found.append("")
        found[-1] += line
        fenced ^= line.startswith("```")
    return found


def marks_of(page: str, chunk: str) -> str:
    """The lines that belong behind a chunk; "" where all is run."""
    programs: dict[str, list[str]] = {}
    for command in pages.commands_in(page, chunk):
        if command.words[0] == "python" and not command.arguments:
            continue
        kind, why = guide_commands.check_of(command)
        if kind == "not_run":
            named = programs.setdefault(why, [])
            if command.program not in named:
                named.append(command.program)
    return "".join(
        f"*No test runs {', '.join(f'`{name}`' for name in named)}: {why}.*\n\n"
        for why, named in programs.items()
    )


def written(path: pathlib.Path) -> str:
    """The text of a page with its marks."""
    page = path.relative_to(ROOT).as_posix()
    text = _MARK.sub("", path.read_text(encoding="utf-8"))
    found = ""
    for chunk in chunks(text.rstrip("\n") + "\n\n"):
        found += chunk.rstrip("\n") + "\n\n" + marks_of(page, chunk)
    return found.rstrip("\n") + "\n"


def main() -> None:
    """Writes the pages."""
    for path in marked_pages():
        path.write_text(written(path), encoding="utf-8")


if __name__ == "__main__":
    main()
