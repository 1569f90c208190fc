"""Text files line by line, plain, `.gz` or `.xz`, each bad line named."""

import gzip
import json
import lzma
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import NoReturn

from common import checks, files, optional
from common.errors import UserError
from data.corpus.documents import decode_lines, read_line_bytes
from data.finetuning.tables import table_files


def package(name: str) -> ModuleType:
    """An optional package of document ranking."""
    return optional.load(name, "document ranking", "requirements-ranking.txt")


def read(path: str, flag: str) -> Iterator[tuple[int, str]]:
    """Lines of a file with their numbers from 1, without line ends.

    One line is in memory at a time. A line that is empty or of white space only
    is given, too: formats differ in what it means. Raises UserError: no such
    file, not UTF-8, lines that end with CR alone or are too long, or packed
    data that are damaged.
    """
    number = 0
    try:
        with (
            files.as_os_errors(path),
            files.open_binary(path) as raw,
            _unpacked(raw, path) as f,
        ):
            for line in decode_lines(path, read_line_bytes(f, path)):
                number += 1
                yield number, line.rstrip("\r\n")
    except (lzma.LZMAError, EOFError, zlib.error, gzip.BadGzipFile) as e:
        raise UserError(
            f"{path}: damaged or cut after line {number} ({e}); get the file "
            "again or unpack it by hand"
        ) from e
    except OSError as e:
        why = e.strerror or str(e)
        raise UserError(f"{flag}={path} cannot be read: {why}") from e


def _unpacked(raw, path: str):
    _, packing = table_files.unpacked_name(path)
    return table_files.COMPRESSED[packing](raw) if packing else raw


def first_text(path: str, flag: str) -> tuple[int, str]:
    """The first line that is not blank, to tell formats apart; or UserError."""
    for number, line in read(path, flag):
        if line.strip():
            return number, line
    raise UserError(f"{flag}={path} is empty")


def detect(path: str, flag: str, forms: Mapping[str, str], wanted: str) -> str:
    """The form like which the first line with text begins; or UserError."""
    number, line = first_text(path, flag)
    for form, pattern in forms.items():
        if re.match(pattern, line):
            return form
    refuse(path, number, wanted, line)


def separated(
    path: str, flag: str, sign: str, wanted: str
) -> Iterator[tuple[int, str, str]]:
    """(number, id, text) of the lines that have a sign between these."""
    for number, line in read(path, flag):
        if line.strip():
            name, between, text = line.partition(sign)
            if not between:
                refuse(path, number, wanted, line)
            yield number, name.strip(), text


def column_name(text: str) -> str:
    """A name of a header as the names of fields are written.

    >>> column_name("Query-ID ")
    'query_id'
    """
    return text.strip().lower().replace("-", "_").replace(" ", "_")


def table(
    path: str, flag: str, ids: Sequence[str], texts: Sequence[str]
) -> Iterator[tuple[int, str, str]]:
    """(number, id, text) of a TSV's lines.

    A header, whose first column is one of `ids`, is left out. Raises UserError:
    a line without a tab; a header with other columns than `texts`.
    """
    rows = separated(path, flag, "\t", "id<tab>text")
    for place, (number, name, text) in enumerate(rows):
        if place or column_name(name) not in ids:
            yield number, name, text
            continue
        columns = text.split("\t")
        if not all(column_name(column) in texts for column in columns):
            wanted = f"a header of {ids[0]} and {' or '.join(texts)}"
            refuse(path, number, wanted, f"{name}\t{text}")


def elements(
    path: str, flag: str, name: str, outside: str, wanted: str
) -> Iterator[tuple[int, str]]:
    """(first line, content) of every `<name>` ... `</name>`, in any case.

    Raises UserError: text like the expression `outside` between them, which
    says what is `wanted` in its place; a tag without the other one.
    """
    start, parts = 0, []
    for number, line in read(path, flag):
        at = 0
        for tag in re.finditer(rf"(?i)<(/?){name}>", line):
            if bool(tag[1]) != bool(start):
                other = f"</{name}>" if start else f"<{name}>"
                refuse(path, number, f"{other} before it", line)
            if start:
                parts.append(line[at : tag.start()])
                yield start, "\n".join(parts)
            start, parts, at = (0 if tag[1] else number), [], tag.end()
        if start:
            parts.append(line[at:])
        elif re.search(outside, line[at:]):
            refuse(path, number, wanted, line)
    if start:
        refuse(path, start, f"</{name}> after <{name}>", "the file's end")


def json_objects(path: str, flag: str) -> Iterator[tuple[int, dict]]:
    """(number, object) of the lines; other JSON is refused."""
    for number, line in read(path, flag):
        if not line.strip():
            continue
        try:
            value = checks.parse_json(line)
        except json.JSONDecodeError:
            value = None
        except (ValueError, RecursionError) as e:
            raise UserError(f"{path}:{number}: no valid JSON ({e})") from e
        if not isinstance(value, dict):
            refuse(path, number, "a JSON object", line)
        if problem := table_files.half_pair(line, value):
            raise UserError(f"{path}:{number}: {problem}")
        yield number, value


def json_field(
    path: str, number: int, value: dict, names: Sequence[str]
) -> str:
    """The first of these fields that is there, as text.

    Raises UserError: none is there, or it is no string and no whole number.
    """
    for name in names:
        field = value.get(name)
        if isinstance(field, str):
            return field
        if isinstance(field, int) and not isinstance(field, bool):
            return str(field)
    refuse(
        path, number, f"a string in {' or '.join(names)}", str(sorted(value))
    )


def refuse(path: str, number: int, wanted: str, found: str) -> NoReturn:
    """Raises the one-line error of a line."""
    shown = found if len(found) <= 60 else found[:57] + "..."
    raise UserError(f"{path}:{number}: wanted {wanted}, found {shown!r}")


def check_id(path: str, number: int, name: str, value: str) -> str:
    """An id as TREC files hold it: not empty, no white space; or UserError."""
    if not value or len(value.split()) != 1:
        refuse(path, number, f"a {name} without white space", value)
    return value


FIRST_LINE = r"\s*\.(I\s*\S*|[A-Z])\s*$"
_START = re.compile(r"\.I\s*(\S*)\s*$")
_FIELD = re.compile(r"\.([A-Z])\s*$")


def texts(path: str, flag: str, names: str) -> Iterator[tuple[int, str, str]]:
    """(line, id, text) of SMART's records: the fields of these letters, in turn.

    A line that holds a dot and one capital letter alone starts a field; a field
    may come twice and both parts count. Cranfield and CISI are in this form.
    Raises UserError: text before the first `.I` or the first field, an empty
    `.I`.
    """
    record, fields = None, []
    for number, line in read(path, flag):
        start = _START.match(line)
        field = _FIELD.match(line)
        if start:
            if record:
                yield *record, _text(fields, names)
            name = check_id(path, number, "number after .I", start[1])
            record, fields = (number, name), []
        elif record is None:
            # CISI.ALL starts with a stray, empty `.X`.
            if line.strip() and not field:
                refuse(path, number, "a record's start `.I ID`", line)
        elif field:
            fields.append((field[1], []))
        elif fields:
            fields[-1][1].append(line)
        elif line.strip():
            refuse(path, number, "a field such as `.W`", line)
    if record:
        yield *record, _text(fields, names)


def _text(fields: list[tuple[str, list[str]]], names: str) -> str:
    lines_of: dict[str, list[str]] = {}
    for letter, text in fields:
        lines_of.setdefault(letter, []).extend(text)
    parts = ("\n".join(lines_of.get(name, ())).strip() for name in names)
    return "\n".join(filter(None, parts))
