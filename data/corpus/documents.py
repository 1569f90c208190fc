"""Raw corpora: files -> blocks of whole documents.

Text: one sentence per line, an empty line (or one of white space only) ends a
document, `<eop>` at a line's end ends a paragraph. JSONL: a line is a document,
its text field holds the lines. Each also gzipped; local or `tf.io.gfile` paths.
A *block* of the builder is a run of whole documents: byte ranges of one file or
of several that follow each other. One document that is longer than
`LONGEST_DOCUMENT` blocks is cut between lines, so that memory does not grow with
it.
"""

import collections
import dataclasses
import gzip
import hashlib
import json
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import IO

from common import checks, encodings, files
from common.contract import symbols
from common.errors import UserError
from data.corpus import sources
from data.corpus.options import JSON_ENDINGS

LONGEST_DOCUMENT = 4  # blocks
LONGEST_LINE = 1 << 29  # bytes; a packed file may unpack to any length
_GZIP = ".gz"


class CorpusError(UserError):
    """Text that cannot be read; the input must change before a build can."""


@dataclasses.dataclass(frozen=True)
class Block:
    """A run of whole documents: bytes [start, end) of a file's text."""

    path: str
    start: int
    end: int


@dataclasses.dataclass(frozen=True)
class Document:
    """One document."""

    lines: list[str]
    # numbers of the lines that end a paragraph
    paragraph_ends: frozenset[int]
    line_number: int  # in the block, of its first line; from 0


def list_files(pattern: str) -> list[str]:
    """The files of comma-separated glob patterns, sorted within each.

    Patterns may have names (`sources.find`), which say nothing here. Raises
    UserError: a pattern matches nothing.
    """
    paths = [p for source in sources.find(pattern) for p in source.paths]
    return list(dict.fromkeys(paths))


def is_jsonl(path: str) -> bool:
    """Whether a file holds one JSON document per line, by its name."""
    return path.lower().removesuffix(_GZIP).endswith(JSON_ENDINGS)


def check_text_field(text_field: str, paths: Iterable[str]) -> None:
    """Raises UserError: no file has such a field, other than `text`.

    JSON lines under another name would be read as text, braces and all.
    """
    if text_field != "text" and not any(map(is_jsonl, paths)):
        raise UserError(
            f"--text_field={text_field} is of JSON lines, found no file whose "
            f"name ends with {' or '.join(JSON_ENDINGS)}: rename the files, or "
            "leave the flag out"
        )


def is_gzip(path: str) -> bool:
    """Whether a file is packed by gzip, by its name."""
    return path.lower().endswith(_GZIP)


def check_packing(path: str) -> None:
    """Raises CorpusError: a name says that the lines are no text.

    The file is packed by another program than gzip: its bytes would pass for
    text where any bytes do (`--unit=byte`). Or it is a table: its header,
    quotes and labels would be sentences.
    """
    name = path.lower()
    ending = next((e for e in checks.PACKED if name.endswith(e)), _GZIP)
    if ending != _GZIP:
        raise CorpusError(
            f"{path}: wanted plain text or .gz, found {ending}; unpack the file, "
            "or pack it with gzip"
        )
    if name.removesuffix(_GZIP).endswith(encodings.TABLES):
        raise CorpusError(
            f"{path}: wanted lines of text or JSON lines, found a table by its "
            "name; write its texts as JSON lines (.jsonl), or name a file of "
            "sentences .txt"
        )


def open_text(path: str) -> IO[bytes]:
    """Opens a plain or gzipped file for reading its bytes.

    Raises CorpusError as `check_packing`.
    """
    check_packing(path)
    if not is_gzip(path):
        return files.open_binary(path)
    remote = files.is_remote(path)
    return gzip.open(files.open_binary(path) if remote else path)


def read_line_bytes(f: IO[bytes], path: str) -> Iterator[bytes]:
    """The lines of a file with their ends.

    Raises CorpusError: one is longer than `LONGEST_LINE`.
    """
    # A `tf.io.gfile` takes no bound; what it holds is not packed.
    packed = path.lower().endswith(checks.PACKED)
    bound = () if files.is_remote(path) and not packed else (LONGEST_LINE + 1,)
    while line := f.readline(*bound):
        if len(line) > LONGEST_LINE:
            raise CorpusError(
                f"{path}: wanted lines of at most {LONGEST_LINE >> 20} MiB, "
                "found a longer one; break it into lines"
            )
        yield line


class BlockReader:
    """Reads blocks; a gzipped file's stream is kept to go on from."""

    def __init__(self):
        self._path, self._stream = None, None

    def read(self, block: Block) -> bytes:
        """A block's bytes, or OSError, EOFError, zlib.error of the file."""
        with files.about(block.path):
            return self._read(block)

    def _read(self, block: Block) -> bytes:
        if not is_gzip(block.path):
            with open_text(block.path) as f:
                f.seek(block.start)
                return f.read(block.end - block.start)
        if self._path != block.path or self._stream.tell() > block.start:
            self.close()
            self._path, self._stream = block.path, open_text(block.path)
        while self._stream.tell() < block.start:
            left = block.start - self._stream.tell()
            if not self._stream.read(min(left, 1 << 20)):
                break
        return self._stream.read(block.end - block.start)

    def close(self) -> None:
        """Closes the stream, if there is one."""
        if self._stream is not None:
            self._stream.close()
        self._path, self._stream = None, None

    def __del__(self):
        self.close()


def read_run(
    parts: Sequence[Block], reader: BlockReader, text_field: str = "text"
) -> tuple[list[Document], str]:
    """The documents of a run of parts, and the SHA-256 of its text.

    Raises CorpusError as `documents`.
    """
    part_bytes, digest = read_parts(parts, reader)
    run_documents = [
        document
        for part, data in zip(parts, part_bytes, strict=True)
        for document in documents(data, part, text_field)
    ]
    return run_documents, digest


def read_parts(
    parts: Sequence[Block], reader: BlockReader
) -> tuple[list[bytes], str]:
    """The bytes of the parts of a run, and the SHA-256 of its text."""
    part_bytes, digest = [reader.read(part) for part in parts], hashlib.sha256()
    for data in part_bytes:
        digest.update(len(data).to_bytes(8, "little"))  # a file's end counts
        digest.update(data)
    return part_bytes, digest.hexdigest()


def documents(
    data: bytes, block: Block, text_field: str = "text"
) -> list[Document]:
    """The documents of a block; empty ones are left out.

    CorpusError names file and line: bytes that are not UTF-8, a JSONL line that
    is no object with a text field.
    """
    if is_jsonl(block.path):
        texts = json_texts(data, block, text_field)
        found = [_document(_solid_lines(text), n) for n, text in texts]
        return [d for d in found if _has_text(d.lines)]
    text = encodings.line_feeds(decode(data, block))
    # Most texts mark no paragraph: nothing to look for in their lines.
    marked = symbols.EOP in text
    # Only "\n" ends a line: others (form feed, U+2028) are white space in it.
    lines = text.split("\n")
    split_documents, current, first = [], [], 0
    for number, line in enumerate([*lines, ""]):
        if line and not line.isspace():
            if not current:
                first = number
            current.append(line)
        elif current:
            split_documents.append(_document(current, first, marked))
            current = []
    return [d for d in split_documents if not marked or _has_text(d.lines)]


def decode_lines(path: str, lines: Iterable[bytes]) -> Iterator[str]:
    """The lines of a file as text, without a byte order mark.

    CorpusError names file and line: bytes that are not UTF-8, lines that end
    with CR alone.
    """
    with files.about(path):
        for number, line in enumerate(lines):
            if not number:
                is_all = not line.endswith(b"\n")
                line = _beginning(line, path, is_all)
            try:
                yield line.decode("utf-8")
            except UnicodeDecodeError as e:
                raise _not_utf8(path, number + 1, e) from e


def decode(data: bytes, block: Block) -> str:
    """The text of a block's bytes, as `decode_lines` gives that of a file."""
    if not block.start:
        data = _beginning(data, block.path, is_all=True)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as e:
        line = data.count(b"\n", 0, e.start) + 1 + lines_before(block)
        raise _not_utf8(block.path, line, e) from e


def _beginning(data: bytes, path: str, is_all: bool) -> bytes:
    """The first bytes of a file, checked, without a byte order mark.

    `data` is whole lines; `is_all`: no line ends with LF if none does in it.
    """
    problem = encodings.refusal(data[:4])
    if is_all:
        problem = problem or encodings.other_line_ends(data)
    if problem:
        raise CorpusError(f"{path}: line 1: {problem}")
    return data.removeprefix(encodings.BOM)


def _not_utf8(path: str, line: int, e: UnicodeDecodeError) -> CorpusError:
    before = e.object[max(0, e.start - 20) : e.start]
    return CorpusError(
        f"{path}: line {line}: not UTF-8 (byte 0x{e.object[e.start]:02x} after "
        f"{before!r}); convert the file, e.g. iconv -f latin1 -t utf-8 IN > "
        "OUT, or drop such bytes with iconv -c -f utf-8 -t utf-8"
    )


def lines_before(block: Block) -> int:
    """Number of lines of the file before a block; only for messages."""
    count, left = 0, block.start
    if not left:
        return 0
    with open_text(block.path) as f:
        while left > 0 and (data := f.read(min(left, 1 << 20))):
            count += data.count(b"\n")
            left -= len(data)
    return count


def json_texts(
    data: bytes, block: Block, text_field: str = "text"
) -> list[tuple[int, str]]:
    """Texts of a block of JSON lines, as they are but for CR LF.

    (number of its line in the block, from 0, and text) of those that are more
    than white space. CorpusError as `documents`.
    """
    texts = []
    lines = encodings.line_feeds(decode(data, block)).split("\n")
    for number, line in enumerate(lines):
        if not line or line.isspace():
            continue
        try:
            text = json_text(line, text_field)
        except ValueError as e:
            line_number = number + 1 + lines_before(block)
            raise CorpusError(f"{block.path}: line {line_number}: {e}") from e
        if text and not text.isspace():
            texts.append((number, encodings.line_feeds(text)))
    return texts


def _solid_lines(text: str) -> list[str]:
    """The lines of a text that are more than white space."""
    return [x for x in text.split("\n") if x and not x.isspace()]


def json_text(line: str, field: str, wanted: str = "a JSON object") -> str:
    """The text in the field of a line's JSON object.

    Raises ValueError: no such object, a key twice, half of a surrogate pair.
    """
    try:
        text = checks.parse_json(line)[field]
        if not isinstance(text, str):
            raise TypeError
    except (json.JSONDecodeError, KeyError, TypeError, RecursionError) as e:
        raise ValueError(
            f"wanted {wanted} with a text in the field {field!r}, "
            f"found {line[:60]!r}"
        ) from e
    if problem := encodings.half_pair(text):
        raise ValueError(problem)
    return text


def _has_text(lines: list[str]) -> bool:
    """False of a document that only ends paragraphs."""
    return any(line and not line.isspace() for line in lines)


def _document(
    lines: list[str], line_number: int, marked: bool = True
) -> Document:
    """`marked`: a line may end with `<eop>`."""
    ends = []
    if marked and any(symbols.EOP in line for line in lines):
        lines = list(lines)
        for i, line in enumerate(lines):
            stripped = line.rstrip()
            if stripped.endswith(symbols.EOP):
                lines[i] = stripped[: -len(symbols.EOP)]
                ends.append(i)
    return Document(lines, frozenset(ends), line_number)


def symbol_ratio(lines: list[str]) -> float:
    """Share of characters that are symbols, such as punctuation.

    Letters, numbers, white space, marks (vowel signs, virama, tone marks,
    accents: about a third of the characters of Hindi or Tamil) and format
    characters (the joiners of Persian and Sinhala) are none.
    """
    counts = collections.Counter()
    for line in lines:
        counts.update(line)
    symbols = sum(n for c, n in counts.items() if _is_symbol(c))
    return symbols / max(counts.total(), 1)


def _is_symbol(character: str) -> bool:
    if character.isspace():
        return False
    category = unicodedata.category(character)
    return category[0] not in "LMN" and category != "Cf"
