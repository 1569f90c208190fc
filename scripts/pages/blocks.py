"""Blocks of the files in docs/measured/tables: a table each, with its command."""

import dataclasses
import pathlib
import re


@dataclasses.dataclass(frozen=True)
class Block:
    """One table of a file."""

    name: str
    # "command", and "since" when the pages have the numbers -> text
    facts: dict[str, str]
    rows: list[list[str]]  # cells; the first row is the head

    def __str__(self) -> str:
        lines = [f"# table: {self.name}"]
        lines += [f"# {key}: {text}" for key, text in self.facts.items()]
        lines += ["\t".join(row) for row in self.rows]
        return "\n".join(lines) + "\n"


def read_file(path: pathlib.Path) -> dict[str, Block]:
    """Name -> block, in the order of the file."""
    blocks = {}
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    for part in re.split(r"^# table: ", text, flags=re.M)[1:]:
        name, *lines = part.rstrip("\n").split("\n")
        facts = {}
        while lines and lines[0].startswith("# "):
            key, _, value = lines.pop(0)[2:].partition(": ")
            facts[key] = value
        blocks[name] = Block(name, facts, [x.split("\t") for x in lines if x])
    return blocks
