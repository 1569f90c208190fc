"""Lines of CoNLL files: their columns, and which are rows.

Columns are by ASCII blanks, or by tabs where a line has one. Marks of documents
end a sentence, comments are left out.
"""

import itertools
import re
from collections.abc import Iterator

Lines = Iterator[tuple[int, str]]


class Unreadable(str):
    """What is wrong with a line that is no text, in its place."""


# CoNLL-U: words are numbered; "1-2" are ranges of them, "8.1" empty nodes.
CONLLU_COLUMNS = 10
_CONLLU_FIRST = re.compile(r"(1|1-\d+|0\.1)\t")
_CONLLU_BESIDE = re.compile(r"\d+[-.]\d+\t")
_DOCUMENT = "-DOCSTART-"
_BEGIN_OR_END = re.compile(r"#(begin|end) document\b")  # of CoNLL-2012
_BLANKS = " \t\r\n"


def fields(line: str) -> list[str]:
    """The columns of a line."""
    # A no-break space is part of a number: only the ASCII blanks separate.
    if "\t" in line:
        return [f.strip(_BLANKS) for f in line.split("\t")]
    return re.split("[ \t]+", line.strip(_BLANKS))


def is_conllu(path: str, lines: Lines) -> tuple[bool, Lines]:
    """Whether a file is CoNLL-U, and its lines, the first ones again.

    By its name, or by its first row below comments: ten columns by tabs, the
    first one the number of a word.
    """
    if re.sub(r"\.(gz|xz)$", "", path.lower()).endswith(".conllu"):
        return True, lines
    row, lines = _first_row(lines)
    many = row.count("\t") == CONLLU_COLUMNS - 1
    return bool(many and _CONLLU_FIRST.match(row)), lines


def rows_of_words(lines: Lines) -> Lines:
    """Those of CoNLL-U, and empty ones: no comments, ranges, empty nodes."""
    for number, line in lines:
        if _is_mark(line):
            yield number, ""
        elif not line.startswith("#") and not _CONLLU_BESIDE.match(line):
            yield number, line


def rows(lines: Lines) -> Lines:
    """Those of other CoNLL files, and empty ones.

    `#` may be a token. Before a sentence it begins a comment where the line has
    other columns than the first row of a word.
    """
    row, lines = _first_row(lines)
    wanted, opens = _layout(row), True
    for number, line in lines:
        if _is_mark(line):
            line = ""
        if row and opens and line.startswith(("# ", "#\t")):
            if _layout(line) != wanted:
                continue
        opens = not line.strip()
        yield number, line


def is_beside(line: str) -> bool:
    """Whether a line may be no row: a comment, or the mark of a document."""
    return line.startswith(("#", _DOCUMENT))


def are_numbers(sentences: list[list[str]]) -> bool:
    """Whether every sentence counts its rows, from 0 or from 1.

    Then that column holds no words. Sentences of one row do not tell.
    """
    return any(len(tokens) > 1 for tokens in sentences) and all(
        tokens == [str(first + i) for i in range(len(tokens))]
        for tokens in sentences
        for first in (0 if tokens[:1] == ["0"] else 1,)
    )


def _is_mark(line: str) -> bool:
    """Of a document: no sentence goes on behind it."""
    return line.startswith(_DOCUMENT) or bool(_BEGIN_OR_END.match(line))


def _layout(line: str) -> tuple[int, bool]:
    return len(fields(line)), "\t" in line


def _first_row(lines: Lines) -> tuple[str, Lines]:
    """The first line that is no comment, "" without one; all lines again."""
    seen = []
    for number, line in lines:
        seen.append((number, line))
        begins = line.strip() and not is_beside(line)
        if begins and not isinstance(line, Unreadable):
            return line, itertools.chain(seen, lines)
    return "", iter(seen)
