"""Queries: TREC SGML, web-track, TSV, JSONL and SMART files (L1).

| format | a query |
|---|---|
| `trec` | `<top> <num> Number: 301 <title> text <desc> ... </top>` |
| `web` | `1:obama family tree` (Web Track) |
| `tsv` | id, tab, text |
| `jsonl` | an object with an id and a text |
| `smart` | `.I` is the id, `.W` the text (`.T` names CISI's longer queries) |
| `cranfield` | the same, but the id is the ordinal: `.I` counts otherwise |
"""

import json
import re
from collections.abc import Iterable, Iterator

from common.errors import UserError
from data.finetuning.ranking import lines, smart

FLAG = "--topics_file"
ID_FIELDS = ("id", "query_id", "qid", "_id")
TEXT_FIELDS = ("text", "query", "title")
TREC_FIELDS = ("title", "desc", "narr")
_TAG = re.compile(r"<(/?)(top|num|title|desc|narr)>", re.IGNORECASE)
_LABEL = re.compile(
    r"^\s*(number|topic|description|narrative)\s*:\s*", re.IGNORECASE
)


def read(
    path: str, form: str = "auto", fields: tuple[str, ...] = ("title",)
) -> dict[str, str]:
    """Query id -> text, in the file's order.

    Args:
      form: one of the table above, or "auto": the first line tells.
      fields: of `TREC_FIELDS`, what makes the text of a TREC query.

    Raises:
      UserError: an unknown field, a bad line, an id twice, a query without
        text, no query.
    """
    check_fields(fields)
    form = detect(path) if form == "auto" else form
    found = collect(path, _READERS[form](path, fields))
    if not found:
        raise UserError(f"{FLAG}={path} holds no query in the form {form!r}")
    return found


def check_fields(fields: tuple[str, ...]) -> None:
    """Refuses what is none of `TREC_FIELDS`."""
    unknown = [name for name in fields if name not in TREC_FIELDS]
    if unknown or not fields:
        raise UserError(
            f"--topic_fields: wanted some of {', '.join(TREC_FIELDS)}, found "
            f"{', '.join(unknown) or 'none'}"
        )


def collect(path: str, rows: Iterable[tuple[int, str, str]]) -> dict[str, str]:
    """Query id -> text of (line, id, text), checked.

    Raises:
      UserError: a bad id, an id twice, a query without text.
    """
    found: dict[str, str] = {}
    where: dict[str, int] = {}
    for number, name, text in rows:
        name = lines.check_id(path, number, "query id", name)
        if name in found:
            raise UserError(
                f"{path}:{number}: the query {name!r} is already on line "
                f"{where[name]}: every query has an id of its own"
            )
        text = " ".join(text.split())
        if not text:
            lines.refuse(path, number, f"a text for query {name!r}", text)
        found[name], where[name] = text, number
    return found


def detect(path: str) -> str:
    """The format by the first line that is not blank.

    Raises:
      UserError: none fits.
    """
    number, line = lines.first_text(path, FLAG)
    start = line.lstrip()
    if start[:5].lower() == "<top>":
        return "trec"
    if start.startswith("{"):
        return "jsonl"
    if smart.starts(start):
        return "smart"
    if "\t" in line:
        return "tsv"
    if re.match(r"[^\s:]+:", start):
        return "web"
    lines.refuse(
        path,
        number,
        "<top>, {JSON}, .I, id<tab>text or id:text (or give --topics_format)",
        line,
    )


def _trec(path: str, fields) -> Iterator[tuple[int, str, str]]:
    begin, open_field, parts = 0, "", {}
    for number, line in lines.read(path, FLAG):
        at = 0
        for tag in _TAG.finditer(line):
            _add(parts, open_field, line[at : tag.start()])
            at, name = tag.end(), tag[2].lower()
            if name != "top":
                open_field = "" if tag[1] else name
                if not begin:
                    lines.refuse(path, number, "<top> before it", line)
                continue
            if bool(tag[1]) != bool(begin):
                wanted = "</top> before it" if begin else "<top> before it"
                lines.refuse(path, number, wanted, line)
            if begin:
                yield begin, *_topic(path, begin, parts, fields)
            begin, open_field, parts = (0 if tag[1] else number), "", {}
        _add(parts, open_field, line[at:])
    if begin:
        lines.refuse(path, begin, "</top> after <top>", "the file's end")


def _add(parts: dict[str, list[str]], name: str, text: str) -> None:
    if name and text.strip():
        parts.setdefault(name, []).append(text)


def _topic(path: str, begin: int, parts, fields) -> tuple[str, str]:
    if "num" not in parts:
        lines.refuse(path, begin, "<num> in the topic", "none")
    clean = {
        name: _LABEL.sub("", " ".join(text), 1).strip()
        for name, text in parts.items()
    }
    return clean["num"], " ".join(clean.get(name, "") for name in fields)


def _separated(separator: str, wanted: str):
    def read_lines(path: str, fields) -> Iterator[tuple[int, str, str]]:
        for number, line in lines.read(path, FLAG):
            if not line.strip():
                continue
            name, found, text = line.partition(separator)
            if not found:
                lines.refuse(path, number, wanted, line)
            yield number, name.strip(), text

    return read_lines


def _jsonl(path: str, fields) -> Iterator[tuple[int, str, str]]:
    for number, line in lines.read(path, FLAG):
        if line.strip():
            value = json_object(path, number, line)
            yield (
                number,
                json_field(path, number, value, ID_FIELDS),
                json_field(path, number, value, TEXT_FIELDS),
            )


def json_object(path: str, number: int, line: str) -> dict:
    """The object on a line.

    Raises:
      UserError: it is none.
    """
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        lines.refuse(path, number, "a JSON object", line)
    return value


def json_field(path: str, number: int, value: dict, names) -> str:
    """The first of these fields that is there, as text.

    Raises:
      UserError: none is there, or it is no string and no whole number.
    """
    for name in names:
        found = value.get(name)
        if isinstance(found, str):
            return found
        if isinstance(found, int) and not isinstance(found, bool):
            return str(found)
    lines.refuse(
        path, number, f"a string in {' or '.join(names)}", str(sorted(value))
    )


def _smart(path: str, fields) -> Iterator[tuple[int, str, str]]:
    for record in smart.read(path, FLAG):
        yield record.number, record.id, smart.text_of(record, "W")


def _cranfield(path: str, fields) -> Iterator[tuple[int, str, str]]:
    # `cranqrel` counts the queries from 1; the file's own numbers have gaps.
    for ordinal, record in enumerate(smart.read(path, FLAG), start=1):
        yield record.number, str(ordinal), smart.text_of(record, "W")


_READERS = {
    "trec": _trec,
    "web": _separated(":", "id:text"),
    "tsv": _separated("\t", "id<tab>text"),
    "jsonl": _jsonl,
    "smart": _smart,
    "cranfield": _cranfield,
}
