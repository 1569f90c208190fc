"""SMART files: records of one-letter fields (L1).

    .I 1
    .T
    a title
    .W
    the text

A line that holds a dot and one capital letter alone starts a field; a field
may come twice and both parts count. Cranfield and CISI are in this form.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from data.finetuning.ranking import lines

FIRST_LINE = r"\s*\.(I\s*\S*|[A-Z])\s*$"
_START = re.compile(r"\.I\s*(\S*)\s*$")
_FIELD = re.compile(r"\.([A-Z])\s*$")


class Record(NamedTuple):
    """One record: its `.I`, the line where it starts, its fields' text."""

    id: str
    number: int
    fields: dict[str, str]


def read(path: str, flag: str) -> Iterator[Record]:
    """The records of a file, one in memory at a time.

    Raises:
      UserError: text before the first `.I` or the first field, an empty `.I`.
    """
    record, parts = None, []
    for number, line in lines.read(path, flag):
        start = _START.match(line)
        field = _FIELD.match(line)
        if start:
            if record is not None:
                yield record._replace(fields=_joined(parts))
            name = lines.check_id(path, number, "number after .I", start[1])
            record, parts = Record(name, number, {}), []
        elif record is None:
            # CISI.ALL starts with a stray, empty `.X`.
            if line.strip() and not field:
                lines.refuse(path, number, "a record's start `.I ID`", line)
        elif field:
            parts.append((field[1], []))
        elif parts:
            parts[-1][1].append(line)
        elif line.strip():
            lines.refuse(path, number, "a field such as `.W`", line)
    if record is not None:
        yield record._replace(fields=_joined(parts))


def _joined(parts: list[tuple[str, list[str]]]) -> dict[str, str]:
    fields: dict[str, list[str]] = {}
    for name, text in parts:
        fields.setdefault(name, []).extend(text)
    return {name: "\n".join(text).strip() for name, text in fields.items()}


def texts(path: str, flag: str, names: str) -> Iterator[tuple[int, str, str]]:
    """(line, id, text) of the records: the fields of these letters, in turn."""
    for record in read(path, flag):
        fields = [record.fields.get(name, "") for name in names]
        yield record.number, record.id, "\n".join(filter(None, fields))
