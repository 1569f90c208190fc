"""Command: public text layouts -> one sentence per line, documents apart.

    python -m data.convert_corpus --layout=wikitext \\
        --input_glob=wikitext-103/wiki.train.tokens --output_file=wiki.txt
    python -m data.convert_corpus --layout=book --input_glob='novels/*.txt' \\
        --output_file=novels.txt
    python -m data.convert_corpus --layout=wikiextractor \\
        --input_glob='extracted/*/wiki_*' --output_file=wiki.txt
    python -m data.convert_corpus --layout=cirrussearch \\
        --input_glob='enwiki_content-*.json.bz2' --output_file=wiki.txt
    python -m data.convert_corpus --layout=wikipedia \\
        --input_glob='enwiki-latest-pages-articles*.bz2' --output_file=wiki.txt

`wikitext`: a line ` = Title = ` between empty lines starts a document, deeper
headings are left out, a line is a paragraph, the tokenizer's `@-@` and spaces before punctuation
are taken back. `book`: a file is a document, lines are joined, an empty line
ends a paragraph. `wikiextractor`: one JSON object per line (`--json`) or
`<doc ...>` and `</doc>` around each article; a line is a paragraph, the title
is left out. `cirrussearch`: Wikipedia's JSON dumps of its search index, an
article's fields in every second line; its text is one paragraph. `wikipedia`:
its XML dumps, a line is a paragraph. Pages of both that
are no articles are left out. Paragraphs end with `<eop>` when --paragraphs is given.
"""

import bz2
import html
import itertools
import json
import re
import sys
from collections.abc import Iterator
from typing import IO

from common import checks, encodings, files
from common.contract.symbols import EOP
from common.errors import UserError
from data.corpus import documents as corpus
from data.corpus import next_step, wikipedia
from data.corpus.documents import CorpusError
from data.corpus.options import ConvertOptions
from data.corpus.sentences import join_lines, sentences
from flags import app, flag_values

_TITLE = re.compile(r"^ ?= [^=](.*[^=])? = ?$")
_HEADING = re.compile(r"^ ?(= ){2,}.*( =){2,} ?$")
_JOINED = re.compile(r" @([-,.])@ ")
_BEFORE = re.compile(r" ([.,;:!?)\]%]|'s\b|n't\b)")
_AFTER = re.compile(r"([(\[$]) ")
_DOC = re.compile(r"^<doc\b[^>]*>$")
_UNESCAPED = re.compile(r"[<>]|&(?!(?:amp|lt|gt);)")


def wikitext_paragraphs(lines: Iterator[str]) -> Iterator[str | None]:
    """Paragraphs of a WikiText file, None where a document ends."""
    before = ""
    for line, after in itertools.pairwise(itertools.chain(lines, [""])):
        line = line.rstrip("\r\n")
        if _is_title(before, line, after):
            yield None
        elif line.strip() and not _HEADING.match(line):
            text = _JOINED.sub(r"\1", line)
            yield _AFTER.sub(r"\1", _BEFORE.sub(r"\1", text))
        before = line
    yield None


def _is_title(before: str, line: str, after: str) -> bool:
    """A table's key or a formula looks like a title, but has neighbours."""
    alone = not before.strip() and not after.strip()
    return alone and bool(_TITLE.match(line))


def book_paragraphs(lines: Iterator[str]) -> Iterator[str | None]:
    """Paragraphs of a plain text file, which is one document."""
    paragraph = []
    for line in lines:
        if line.strip():
            paragraph.append(line)
        elif paragraph:
            yield join_lines(paragraph)
            paragraph = []
    if paragraph:
        yield join_lines(paragraph)
    yield None


def wikiextractor_paragraphs(
    lines: Iterator[str], path: str = ""
) -> Iterator[str | None]:
    """Paragraphs of WikiExtractor's output, None where an article ends.

    Raises CorpusError: a line that is neither JSON nor part of a `<doc>` block.
    """
    inside, title = False, False
    for number, line in enumerate(lines, 1):
        line = line.strip()
        if inside:
            if line == "</doc>":
                yield None
                inside = False
            elif line and not title:
                yield html.unescape(line)
            # The first line of an article is its title.
            title = title and not line
        elif _DOC.match(line):
            inside = title = True
        elif line:
            yield from _json_paragraphs(line, f"{path}: line {number}")
            yield None
    if inside:
        raise CorpusError(f"{path}: the last <doc> has no </doc>: cut off?")


def _json_paragraphs(line: str, where: str) -> Iterator[str]:
    wanted = "WikiExtractor's <doc ...> or a JSON object"
    try:
        text = corpus.json_text(line, "text", wanted)
    except ValueError as e:
        raise CorpusError(f"{where}: {e}") from e
    first, end, rest = text.partition("\n")
    # Release 0.1 writes the title and an empty line first.
    if end and rest[:1] in ("", "\n"):
        if first == checks.parse_json(line).get("title"):
            text = rest
    # Later ones escape texts unless told otherwise; `&`, `<` or `>` that stands
    # alone says that this one is not escaped.
    if not _UNESCAPED.search(text):
        text = html.unescape(text)
    yield from (part for part in text.split("\n") if part.strip())


def cirrussearch_paragraphs(
    lines: Iterator[str], path: str = ""
) -> Iterator[str | None]:
    """Texts of the articles of a search index's dump, None after each.

    Lines are `{"index": ...}` and the page's fields, in turn. Raises
    CorpusError: a line is no JSON object, or a page has no text.
    """
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{path}: line {number}"
        try:
            page = checks.parse_json(line)
            if not isinstance(page, dict):
                raise TypeError
            if set(page) == {"index"}:
                continue
            namespace, text = page.get("namespace", 0), page["text"]
            if not isinstance(text, str):
                raise TypeError
        except (json.JSONDecodeError, KeyError, TypeError, RecursionError) as e:
            raise CorpusError(
                f"{where}: wanted a page of a cirrussearch dump, a JSON object "
                f"with a text in the field 'text', found {line[:60]!r}"
            ) from e
        except ValueError as e:
            raise CorpusError(f"{where}: {e}") from e
        if problem := encodings.half_pair(text):
            raise CorpusError(f"{where}: {problem}")
        if namespace == 0 and text.strip():
            yield " ".join(text.split())
            yield None


def convert(options: ConvertOptions) -> int:
    """Writes the output file; returns the number of documents.

    Raises UserError: no document, a line of another layout; nothing is written.
    """
    documents = 0
    paths = corpus.list_files(options.input_glob)
    files.refuse_input(options.output_file, paths)
    with files.atomic_open(options.output_file, "w") as out:
        for path in paths:
            written = _convert_file(path, options, out)
            documents += written
        if not documents:
            raise UserError(
                f"--input_glob={options.input_glob} holds no article in the "
                f"layout {options.layout}: check the files and --layout"
            )
    return documents


def _convert_file(path: str, options: ConvertOptions, out) -> int:
    read = {
        "wikitext": wikitext_paragraphs,
        "book": book_paragraphs,
        "wikiextractor": lambda lines: wikiextractor_paragraphs(lines, path),
        "cirrussearch": lambda lines: cirrussearch_paragraphs(lines, path),
        "wikipedia": lambda lines: wikipedia.paragraphs(lines, path),
    }[options.layout]
    documents, begun = 0, False
    with _open(path) as f:
        text = _Watched(
            corpus.decode_lines(path, corpus.read_line_bytes(f, path))
        )
        for paragraph in read(text):
            if paragraph is None:
                if begun:
                    out.write("\n")
                    documents += 1
                begun = False
                continue
            paragraph_sentences = sentences(paragraph)
            if not paragraph_sentences:
                continue  # an empty line would end the document
            end = f" {EOP}\n" if options.paragraphs else "\n"
            out.write("\n".join(paragraph_sentences) + end)
            begun = True
    _say_what_looks_wrong(path, options.layout, text)
    return documents


def _open(path: str) -> IO[bytes]:
    """A file of any kind that is read; Wikipedia packs its dumps as .bz2."""
    if not path.lower().endswith(".bz2"):
        return corpus.open_text(path)
    remote = files.is_remote(path)
    return bz2.open(files.open_binary(path) if remote else path)


class _Watched:
    """Lines as they pass; counts WikiText's."""

    def __init__(self, lines: Iterator[str]):
        self._lines = lines
        self.count = self.titles = self.marks = 0
        self._last = ("", "")

    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            self.count += 1
            bare = line.rstrip("\r\n")
            self.titles += _is_title(*self._last, bare)
            self._last = self._last[1], bare
            self.marks += bool(_HEADING.match(bare) or _JOINED.search(bare))
            yield line


def _say_what_looks_wrong(path: str, layout: str, text: _Watched) -> None:
    message = ""
    if layout == "wikitext" and text.count and not text.titles:
        message = (
            "no line ` = Title = ` between empty lines was found, so the "
            "whole file is one document; is it another layout?"
        )
        if text.marks:
            message = (
                f"{text.marks} lines look like WikiText, but no line "
                "` = Title = ` between empty lines was found, so the whole "
                "file is one document"
            )
    elif layout == "book" and text.titles:
        message = (
            f"{text.titles} lines look like WikiText's titles ` = Title = `, "
            "but --layout=book makes the file one document; give "
            "--layout=wikitext?"
        )
    if message:
        print(f"warning: {path}: {message}", file=sys.stderr)


def main() -> None:
    """Converts what the flags say."""
    options = flag_values.build(ConvertOptions)
    count = convert(options)
    print(f"{options.output_file}: {count} documents")
    print(next_step.vocabulary(options.output_file))


if __name__ == "__main__":
    flag_values.define(ConvertOptions)
    app.run(main)
