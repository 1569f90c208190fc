"""Queries: TREC SGML, web-track, TSV, JSONL and SMART files.

| format | a query |
|---|---|
| `trec` | `<top> <num> Number: 301 <title> text <desc> ... </top>` |
| `web` | `1:obama family tree` (Web Track) |
| `tsv` | id, tab, text; a header such as `query-id<tab>text` is left out |
| `jsonl` | an object with an id and a text |
| `smart` | `.I` is the id, `.W` the text (`.T` names CISI's longer queries) |
| `cranfield` | the same, but the id is the ordinal: `.I` counts otherwise |
"""

import re
from collections.abc import Iterable, Iterator

from common.errors import UserError
from data.finetuning.ranking import lines

FLAG = "--topics_file"
ID_FIELDS = ("id", "query_id", "qid", "_id")
HEADER_IDS = (*ID_FIELDS, "queryid", "topic", "topic_id", "topicid")
TEXT_FIELDS = ("text", "query", "title")
TREC_FIELDS = ("title", "desc", "narr")
_TITLE = TREC_FIELDS[:1]  # the default of --topic_fields
# What a file of a form begins with.
_FORMS = {
    "trec": r"\s*<(?i:top)>",
    "jsonl": r"\s*\{",
    "smart": lines.FIRST_LINE,
    "tsv": r"[^\t]*\t",
    "web": r"\s*[^\s:]+:",
}
_WANTED = "<top>, {JSON}, .I, id<tab>text or id:text (or give --topics_format)"
# Of TREC's topics: those after `narr` and `head` are of its first years.
_TAG = r"(?i)<(/?)(num|title|desc|narr|head|dom|smry|con|fac|nat|time|def)>"
_LABEL = re.compile(r"(?i)^\s*(number|topic|description|narrative)\s*:\s*")


def read(
    path: str, form: str = "auto", fields: tuple[str, ...] = _TITLE
) -> dict[str, str]:
    """Query id -> text, in the file's order.

    The form is one of the table above, or "auto": the first line tells;
    `fields` of `TREC_FIELDS` make the text of a TREC query. Raises UserError:
    an unknown field, one of another form, a bad line, an id twice, a query
    without text, no query.
    """
    check_fields(fields)
    if form == "auto":
        form = lines.detect(path, FLAG, _FORMS, _WANTED)
    if form != "trec" and fields != _TITLE:
        raise UserError(
            f"--topic_fields={','.join(fields)}: the queries of {FLAG}={path} "
            f"have no fields in the form {form!r}; leave it out"
        )
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

    Raises UserError: a bad id, an id twice, a query without text.
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
    outside = _TAG, "<top> before it"
    for number, content in lines.elements(path, FLAG, "top", *outside):
        parts: dict[str, str] = {}
        _, *tags = re.split(_TAG, content)
        rows = zip(tags[::3], tags[1::3], tags[2::3], strict=True)
        for closes, name, text in rows:
            if not closes and text.strip():
                parts[name.lower()] = f"{parts.get(name.lower(), '')} {text}"
        if "num" not in parts:
            lines.refuse(path, number, "<num> in the topic", "none")
        clean = {
            name: _LABEL.sub("", " ".join(text.split()), 1)
            for name, text in parts.items()
        }
        texts = (clean.get(name, "") for name in fields)
        yield number, clean["num"].strip(), " ".join(texts)


def _jsonl(path: str) -> Iterator[tuple[int, str, str]]:
    for number, value in lines.json_objects(path, FLAG):
        name = lines.json_field(path, number, value, ID_FIELDS)
        yield number, name, lines.json_field(path, number, value, TEXT_FIELDS)


def _cranfield(path: str) -> Iterator[tuple[int, str, str]]:
    # `cranqrel` counts the queries from 1; the file's own numbers have gaps.
    for ordinal, row in enumerate(lines.texts(path, FLAG, "W"), start=1):
        number, _, text = row
        yield number, str(ordinal), text


_READERS = {
    "web": lambda path: lines.separated(path, FLAG, ":", "id:text"),
    "tsv": lambda path: lines.table(path, FLAG, HEADER_IDS, TEXT_FIELDS),
    "jsonl": _jsonl,
    "smart": lambda path: lines.texts(path, FLAG, "W"),
    "cranfield": _cranfield,
}
