"""Documents one at a time: TREC, JSONL, TSV and SMART files.

| format | a document |
|---|---|
| `trec` | `<DOC> <DOCNO> id </DOCNO> text </DOC>`, tags of HTML left out |
| `jsonl` | an object with an id, a text (`text` or `contents`), maybe `title` |
| `tsv` | id, tab, text; a third column: id, title, text; maybe a header |
| `smart` | `.I` is the id, `.T` and `.W` the text |
| `cranfield` | the same without `.T`, which `.W` repeats |

A collection may be larger than memory: readers hold one document.
"""

import re
from collections.abc import Iterable, Iterator
from html.parser import HTMLParser
from typing import NamedTuple

from common.errors import UserError
from data.corpus.documents import list_files
from data.finetuning.ranking import lines

FLAG = "--documents"
ID_FIELDS = ("id", "doc_id", "docno", "docid", "_id")
TEXT_FIELDS = ("text", "contents", "body")
HEADER_IDS = (*ID_FIELDS, "corpus_id", "document_id", "pid", "passage_id")
HEADER_TEXTS = (*TEXT_FIELDS, "title", "passage")
# What a file of a form begins with.
_FORMS = {
    "trec": r"\s*<(?i:DOC)>",
    "jsonl": r"\s*\{",
    "smart": lines.FIRST_LINE,
    "tsv": r"[^\t]*\t",
}
_WANTED = "<DOC>, {JSON}, .I or id<tab>text (or give --documents_format)"
_DOCNO = re.compile(r"<DOCNO>\s*(.*?)\s*</DOCNO>", re.IGNORECASE | re.DOTALL)
_HEADER = re.compile(
    r"<(DOCHDR|DOCID|DOCOLDNO|FILEID)>.*?</\1>", re.IGNORECASE | re.DOTALL
)


class Document(NamedTuple):
    """A document: id, text, and where it starts."""

    id: str
    text: str
    path: str
    number: int


def paths(patterns: str) -> list[str]:
    """The files that comma-separated patterns name; UserError: none."""
    try:
        return list_files(patterns)
    except UserError as e:
        raise UserError(str(e).replace("--input_glob", FLAG)) from e


def stream(patterns: str, form: str = "auto") -> Iterator[Document]:
    """The documents of all files that comma-separated patterns name.

    The form is one of the table above, or "auto": each file's first line tells.
    Raises UserError: no file, a bad line, a document without id.
    """
    for path in paths(patterns):
        chosen = form
        if form == "auto":
            chosen = lines.detect(path, FLAG, _FORMS, _WANTED)
        for number, name, text in _READERS[chosen](path):
            name = lines.check_id(path, number, "document id", name)
            yield Document(name, " ".join(text.split()), path, number)


def select(
    documents: Iterable[Document], wanted: set[str] | None = None
) -> Iterator[Document]:
    """The wanted documents of a stream; None = all.

    Raises UserError: one comes twice, or a wanted one not at all.
    """
    seen: set[str] = set()
    for document in documents:
        if wanted is not None and document.id not in wanted:
            continue
        if document.id in seen:
            raise UserError(
                f"{document.path}:{document.number}: the document "
                f"{document.id!r} comes a second time: keep one of them"
            )
        seen.add(document.id)
        yield document
    missing = sorted((wanted or seen) - seen)
    if missing:
        raise UserError(
            f"--documents lacks {len(missing)} of {len(wanted)} candidates, "
            f"the first is {missing[0]!r}: are run and documents of one "
            "collection?"
        )


def _trec(path: str) -> Iterator[tuple[int, str, str]]:
    outside = r"\S", "<DOC>"
    for number, content in lines.elements(path, FLAG, "DOC", *outside):
        name = _DOCNO.search(content)
        if name is None:
            wanted = "<DOCNO> in the document"
            lines.refuse(path, number, wanted, content.strip())
        content = _HEADER.sub(" ", _DOCNO.sub(" ", content))
        yield number, name[1], html_text(content)


class _Text(HTMLParser):
    """What a reader of the page sees."""

    HIDDEN = ("script", "style")

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self.hidden = 0

    def handle_starttag(self, tag, attrs):
        self.hidden += tag in self.HIDDEN
        self.parts.append(" ")

    def handle_endtag(self, tag):
        self.hidden = max(0, self.hidden - (tag in self.HIDDEN))
        self.parts.append(" ")

    def handle_data(self, data):
        if not self.hidden:
            self.parts.append(data)

    def parse_marked_section(self, i, report=1):
        try:
            return super().parse_marked_section(i, report)
        except AssertionError:  # `<![` and a word that SGML has not
            return self.parse_bogus_comment(i, report)


def html_text(content: str) -> str:
    """Text without tags, scripts and styles; character references decoded."""
    if "<" not in content and "&" not in content:
        return content
    parser = _Text()
    parser.feed(content)
    parser.close()
    return "".join(parser.parts)


def _jsonl(path: str) -> Iterator[tuple[int, str, str]]:
    for number, value in lines.json_objects(path, FLAG):
        name = lines.json_field(path, number, value, ID_FIELDS)
        text = lines.json_field(path, number, value, TEXT_FIELDS)
        title = value.get("title") or ""
        if not isinstance(title, str):
            lines.refuse(path, number, "a string in title", str(title))
        yield number, name, f"{title} {text}"


_READERS = {
    "trec": _trec,
    "jsonl": _jsonl,
    "tsv": lambda path: lines.table(path, FLAG, HEADER_IDS, HEADER_TEXTS),
    "smart": lambda path: lines.texts(path, FLAG, "TW"),
    "cranfield": lambda path: lines.texts(path, FLAG, "W"),
}
