"""Articles of Wikipedia's XML dumps (`pages-articles`) as plain paragraphs.

The wikitext of a page is parsed by the package `mwparserfromhell`. What is no
running text is left out: templates, tables, references, pictures, categories,
links to other languages, headings.
"""

import re
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

from common import optional
from data.corpus.documents import CorpusError

_ARTICLE = "0"
# Elements of wikitext whose content is no running text.
_LEFT_OUT = frozenset(
    "gallery graph imagemap indicator mapframe math ref references score "
    "source syntaxhighlight table timeline".split()
)
# A link to the same article in another language.
_LANGUAGE = re.compile(r"[a-z]{2,3}(-[a-z]+)*")
# Other names of them, and those of a part of a dump without its beginning.
_NAMESPACES = ("category", "file", "image", "media")
# What a template leaves of "Brahui ({{lang|...}})".
_EMPTY = re.compile(r" ?\([\s,;]*\)")
# Half of a surrogate pair is no character, as in HTML.
_HALF = re.compile("[\ud800-\udfff]")
# Rows of a table that a template begins.
_ROWS = ("|", "!", "{|")


def paragraphs(lines: Iterator[str], path: str = "") -> Iterator[str | None]:
    """Paragraphs of a dump's articles, None after each article.

    Raises CorpusError: the file is no XML, or is cut off; UserError: the
    package is missing.
    """
    parse = optional.load(
        "mwparserfromhell", "--layout=wikipedia", "requirements-corpus.txt"
    ).parse
    known = set(_NAMESPACES)
    for element in _elements(lines, path):
        if element.tag == "namespace":
            known.add((element.text or "").strip().lower())
        elif _is_article(element):
            text = element.findtext("revision/text") or ""
            yield from plain(parse(text), known)
            yield None


def plain(code: Any, namespaces: set[str]) -> list[str]:
    """The paragraphs of parsed wikitext, a `Wikicode`, which is changed.

    Links to pages of `namespaces`, names before a colon in small letters, are
    left out. "" is that of articles.
    """
    for node in code.filter(recursive=False):
        if type(node).__name__ == "Heading":
            code.replace(node, "\n")
    for tag in code.filter_tags():
        if str(tag.tag).strip().lower() in _LEFT_OUT:
            _remove(code, tag)
    for link in code.filter_wikilinks():
        before, colon, _ = str(link.title).strip().partition(":")
        before = before.strip().lower()
        if colon and (
            before in namespaces and before or _LANGUAGE.fullmatch(before)
        ):
            _remove(code, link)
    text = code.strip_code(normalize=True, collapse=True)
    text = _HALF.sub("\ufffd", text)
    lines = (" ".join(_EMPTY.sub("", x).split()) for x in text.split("\n"))
    return [line for line in lines if line and not line.startswith(_ROWS)]


def _remove(code: Any, node: Any) -> None:
    """Takes a node out, which may lie in one that is out already."""
    try:
        code.remove(node)
    except ValueError:
        return


def _is_article(element: ElementTree.Element) -> bool:
    return (
        element.tag == "page"
        and element.findtext("ns") == _ARTICLE
        and element.find("redirect") is None
    )


def _elements(lines: Iterator[str], path: str) -> Iterator[ElementTree.Element]:
    """Pages and names of namespaces, without XML's own namespace.

    A page is forgotten when the next one is asked for.
    """
    parser = ElementTree.XMLPullParser(["start", "end"])
    root, depth = None, 0
    try:
        for line in lines:
            parser.feed(line)
            for event, element in parser.read_events():
                element.tag = element.tag.rpartition("}")[2]
                if event == "start":
                    root = element if root is None else root
                    depth += 1
                    continue
                depth -= 1
                if element.tag in ("namespace", "page"):
                    yield element
                if depth == 1:
                    root.clear()
        parser.close()
    except ElementTree.ParseError as e:
        raise CorpusError(
            f"{path}: wanted a whole XML dump of Wikipedia "
            f"(...-pages-articles.xml), but {e}: cut off?"
        ) from e
