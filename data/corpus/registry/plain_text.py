"""Paragraphs of the file formats that documentation is written in.

HTML is read by `lxml`, message catalogues by `gettext`; `requirements-corpus.txt`
has the first. Markup of plain formats is left to `docstrings.clean`, which drops
it with code and tables.
"""

import gettext
import io
import json
import re
from collections.abc import Iterator

from common import optional
from data.corpus import docstrings

_TEXT = (".rst", ".md", ".txt", ".text", ".adoc", ".asciidoc", ".org", ".info")
_MARKED_UP = (".html", ".htm", ".xhtml", ".page")
# A part of a name tells other formats: man pages, and files without an ending.
_MAN = re.compile(r"(^|/)man\d/[^/]+\.\d\w*$")
_PLAIN = re.compile(r"(^|/)(README|NEWS|HOWTO|FAQ)[^/.]*$|\.(info-\d+|dict)$")

_SKIPPED = frozenset(
    "script style pre nav header footer head select button svg math textarea"
    " form code-block listing programlisting object".split()
)
_INLINE = frozenset(
    "a abbr acronym b bdi big cite code dfn em font i img ins kbd label mark q"
    " s samp small span strong sub sup tt u var wbr br guiseq gui app key link"
    " file cmd input output keyseq".split()
)
_ROLES = frozenset(("navigation", "search", "banner", "contentinfo"))
_BLANKS = re.compile(r"\s+")
# Fields of API descriptions that hold prose, as HTML.
_JSON_FIELDS = ("documentation", "description")
_MAN_TEXT = re.compile(r"\.(?:[BI]|SM|SB|[BIR][BIR])\s+(.*)")
_MAN_BREAK = re.compile(r"\.(?:[PL]?P|TP|IP|SH|SS|HP|RS|RE|br|sp|PD|TH)\b")
_MAN_ESCAPES = (
    (re.compile(r'\\".*'), ""),
    (re.compile(r"\\f(?:\[[^\]]*\]|\(..|.)"), ""),
    (re.compile(r"\\s[+-]?\d"), ""),
    (re.compile(r"\\\((?:aq|cq|oq)|\\\[(?:aq|cq|oq)\]"), "'"),
    (re.compile(r"\\\((?:lq|rq|dq)|\\\[(?:lq|rq|dq)\]"), '"'),
    (re.compile(r"\\\((?:em|en)|\\\[(?:em|en)\]"), "-"),
    (re.compile(r"\\(?:\(..|\[[^\]]*\]|\*\(..|\*.)"), ""),
    (re.compile(r"\\[&|^/,:%c]"), ""),
    (re.compile(r"\\[ ~0]"), " "),
    (re.compile(r"\\-"), "-"),
    (re.compile(r"\\e"), r"\\"),
)


def kind(name: str) -> str:
    """The format of a member by its name, "" = none that has text."""
    lower = name.lower()
    if _MAN.search(name):
        return "man"
    if lower.endswith(_MARKED_UP):
        return "html"
    if lower.endswith(_TEXT) or _PLAIN.search(name):
        return "text"
    for ending in (".py", ".mo", ".json"):
        if lower.endswith(ending):
            return ending[1:]
    return ""


def sentences(name: str, data: bytes) -> Iterator[str]:
    """Sentences of running text of a member, in order."""
    form = kind(name)
    if form == "html":
        for paragraph in html_paragraphs(data):
            yield from docstrings.prose(paragraph)
    elif form == "json":
        for text in _json_texts(data):
            for paragraph in html_paragraphs(text.encode("utf-8", "ignore")):
                yield from docstrings.prose(paragraph)
    elif form == "py":
        for text in docstrings.docstrings_of(data):
            yield from docstrings.clean(text)
    elif form == "mo":
        for text in _messages(data):
            yield from docstrings.prose(text)
    elif form:
        text = data.decode("utf-8", "replace").replace("\ufffd", " ")
        yield from docstrings.clean(man_text(text) if form == "man" else text)


def html_paragraphs(data: bytes) -> Iterator[str]:
    """Text of the blocks of a page, without code and navigation."""
    optional.load("lxml", "--size=large", "requirements-corpus.txt")
    from lxml import etree, html

    try:
        data.decode("utf-8")
        encoding = "utf-8"
    except UnicodeDecodeError:
        encoding = "iso-8859-1"  # as libxml2 calls it
    parser = html.HTMLParser(
        encoding=encoding,
        no_network=True,
        remove_comments=True,
        remove_pis=True,
    )
    try:
        root = html.document_fromstring(data, parser=parser)
    except (etree.ParserError, etree.XMLSyntaxError, AssertionError):
        return  # an empty page
    parts: list[str] = []
    walk = etree.iterwalk(root, events=("start", "end"))
    for event, element in walk:
        skipped = element.tag in _SKIPPED or element.get("role") in _ROLES
        if skipped and event == "start":
            walk.skip_subtree()
            continue
        if isinstance(element.tag, str) and element.tag not in _INLINE:
            if text := _BLANKS.sub(" ", "".join(parts)).strip():
                yield text
            parts = []
        if element.tag == "br" and event == "start":
            parts.append(" ")
        text = element.text if event == "start" else element.tail
        parts.append(text or "")
    if text := _BLANKS.sub(" ", "".join(parts)).strip():
        yield text


def man_text(source: str) -> str:
    """A page of manual as plain paragraphs."""
    lines = []
    literal = False
    for line in source.splitlines():
        if line.startswith((".nf", ".EX", ".fi", ".EE")):
            literal = line.startswith((".nf", ".EX"))
            lines.append("")
        elif literal:
            continue
        elif _MAN_BREAK.match(line):
            lines.append("")
        elif match := _MAN_TEXT.match(line):
            lines.append(match[1].replace('"', ""))
        elif not line.startswith((".", "'")):
            lines.append(line)
    text = "\n".join(lines)
    for pattern, replacement in _MAN_ESCAPES:
        text = pattern.sub(replacement, text)
    return text


def _messages(data: bytes) -> Iterator[str]:
    try:
        catalogue = gettext.GNUTranslations(io.BytesIO(data))
    except (OSError, UnicodeDecodeError, ValueError):
        return  # damaged, or of another version
    # gettext has no public way to list the messages that it read.
    for message in catalogue._catalog:
        text = message[0] if isinstance(message, tuple) else message
        yield text.rpartition("\x04")[2]  # a context stands before it


def _json_texts(data: bytes) -> Iterator[str]:
    """Values of the prose fields of an API's description, in order."""
    try:
        stack = [json.loads(data)]
    except (ValueError, RecursionError):
        return
    while stack:
        value = stack.pop()
        if isinstance(value, list):
            stack.extend(reversed(value))
        elif isinstance(value, dict):
            for key in _JSON_FIELDS:
                if isinstance(text := value.get(key), str) and text.strip():
                    yield text
            stack.extend(reversed(list(value.values())))
