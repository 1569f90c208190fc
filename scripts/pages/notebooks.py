"""Writes docs/tutorials/notebooks/*.ipynb from the pages beside them.

python scripts/pages/notebooks.py

A block of Python is a code cell, a block of bash a `%%bash` cell; blocks whose
title begins with "not run" become text. What lies between is text.
"""

import argparse
import json
import pathlib
import re

FOLDER = (
    pathlib.Path(__file__).resolve().parents[2] / "docs/tutorials/notebooks"
)
NOT_RUN = "not run"
_BLOCK = re.compile(
    r'^```(python|bash)(?: title="([^"]*)")?\n(.*?)^```\n', re.M | re.S
)


def cells_of(page: str) -> list[tuple[str, str, str]]:
    """(kind, title, source) in order; kinds are markdown, python and bash."""
    parts = _BLOCK.split(page)
    cells = [("markdown", "", parts[0].strip("\n"))]
    for kind, title, code, text in zip(*[iter(parts[1:])] * 4, strict=True):
        if (title or "").startswith(NOT_RUN):
            code = f"*{title}:*\n\n```bash\n{code}```"
            cells.append(("markdown", title, code))
        else:
            cells.append((kind, title or "", code.rstrip("\n")))
        if text.strip():
            cells.append(("markdown", "", text.strip("\n")))
    return cells


def notebook(page: str) -> str:
    """The text of the `.ipynb` file."""
    cells = []
    for kind, _, source in cells_of(page):
        if kind == "bash":
            source = f"%%bash\nset -e\n{source}"
        cell = {
            "cell_type": "markdown" if kind == "markdown" else "code",
            "metadata": {},
            "source": source.splitlines(keepends=True),
        }
        if kind != "markdown":
            cell |= {"execution_count": None, "outputs": []}
        cells.append(cell)
    kernel = {"display_name": "Python 3", "language": "python"}
    content = {
        "cells": cells,
        "metadata": {"kernelspec": kernel | {"name": "python3"}},
        "nbformat": 4,
        "nbformat_minor": 4,
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    """Writes every notebook."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    for page in sorted(FOLDER.glob("*.md")):
        text = notebook(page.read_text(encoding="utf-8"))
        page.with_suffix(".ipynb").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
