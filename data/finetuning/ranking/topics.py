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

import re
from collections.abc import Iterable, Iterator

from common.errors import UserError
from data.finetuning.ranking import lines, smart

FLAG = "--topics_file"
ID_FIELDS = ("id", "query_id", "qid", "_id")
TEXT_FIELDS = ("text", "query", "title")
TREC_FIELDS = ("title", "desc", "narr")
# What a file of a form begins with.
_FORMS = {
    "trec": r"\s*<(?i:top)>",
    "jsonl": r"\s*\{",
    "smart": smart.FIRST_LINE,
    "tsv": r"[^\t]*\t",
    "web": r"\s*[^\s:]+:",
}
_WANTED = "<top>, {JSON}, .I, id<tab>text or id:text (or give --topics_format)"
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
    if form == "auto":
        form = lines.detect(path, FLAG, _FORMS, _WANTED)
    rows = _trec(path, fields) if form == "trec" else _READERS[form](path)
    texts = collect(path, rows)
    if not texts:
        raise UserError(f"{FLAG}={path} holds no query in the form {form!r}")
    return texts


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
    texts: dict[str, str] = {}
    line_of: dict[str, int] = {}
    for number, name, text in rows:
        name = lines.check_id(path, number, "query id", name)
        if name in texts:
            raise UserError(
                f"{path}:{number}: the query {name!r} is already on line "
                f"{line_of[name]}: every query has an id of its own"
            )
        text = " ".join(text.split())
        if not text:
            lines.refuse(path, number, f"a text for query {name!r}", text)
        texts[name], line_of[name] = text, number
    return texts


def _trec(path: str, fields) -> Iterator[tuple[int, str, str]]:
    start, open_field, parts = 0, "", {}
    for number, line in lines.read(path, FLAG):
        at = 0
        for tag in _TAG.finditer(line):
            _add(parts, open_field, line[at : tag.start()])
            at, name = tag.end(), tag[2].lower()
            if name != "top":
                open_field = "" if tag[1] else name
                if not start:
                    lines.refuse(path, number, "<top> before it", line)
                continue
            if bool(tag[1]) != bool(start):
                wanted = "</top> before it" if start else "<top> before it"
                lines.refuse(path, number, wanted, line)
            if start:
                yield start, *_topic(path, start, parts, fields)
            start, open_field, parts = (0 if tag[1] else number), "", {}
        _add(parts, open_field, line[at:])
    if start:
        lines.refuse(path, start, "</top> after <top>", "the file's end")


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


def _jsonl(path: str) -> Iterator[tuple[int, str, str]]:
    for number, value in lines.json_objects(path, FLAG):
        name = lines.json_field(path, number, value, ID_FIELDS)
        yield number, name, lines.json_field(path, number, value, TEXT_FIELDS)


def _cranfield(path: str) -> Iterator[tuple[int, str, str]]:
    # `cranqrel` counts the queries from 1; the file's own numbers have gaps.
    for ordinal, row in enumerate(smart.texts(path, FLAG, "W"), start=1):
        number, _, text = row
        yield number, str(ordinal), text


_READERS = {
    "web": lambda path: lines.separated(path, FLAG, ":", "id:text"),
    "tsv": lambda path: lines.separated(path, FLAG, "\t", "id<tab>text"),
    "jsonl": _jsonl,
    "smart": lambda path: smart.texts(path, FLAG, "W"),
    "cranfield": _cranfield,
}
