"""Files -> lines, rows without quotes, JSON; nothing fails silently.

Files may be plain, `.gz` or `.xz`, local or any `tf.io.gfile` path. TSV is the
GLUE kind here: no quoting, one row per line; for quotes see `quoted_rows`.
"""

import contextlib
import dataclasses
import gzip
import hashlib
import io
import json
import lzma
import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import IO

from common import encodings, files
from common.checks import parse_json
from common.errors import UserError
from common.process import memory
from data.finetuning.examples import BadRows

COMPRESSED = {".gz": gzip.open, ".xz": lzma.open}
MAX_LINE_BYTES = 16 << 20
MAX_VALUE_BYTES = 1 << 29  # of a file that is one value, unpacked
_BLOCK = 1 << 20
# What many programs write by default is no JSON lines, but one JSON array.
_SPREAD = (
    "; a line holds one object: jq -c .[] IN > OUT, or in pandas "
    "to_json(orient='records', lines=True)"
)
_TOGETHER = 1 << 16  # lines of one value that are kept as one text


@dataclasses.dataclass(frozen=True)
class Row:
    """Fields of one row and the line it starts on (from 1)."""

    where: str
    fields: list[str]


def find_file(directory: str, *names: str) -> str | None:
    """The first of `names` in `directory`, plain or compressed."""
    for name in names:
        for suffix in ("", *COMPRESSED):
            path = os.path.join(directory, name + suffix)
            if exists(path):
                return path
    return None


def unpacked_name(path: str) -> tuple[str, str]:
    """A name in small letters without the ending of a packed file, and that.

    >>> unpacked_name("A.CSV.GZ")
    ('a.csv', '.gz')
    """
    stem, ending = os.path.splitext(path.lower())
    return (stem, ending) if ending in COMPRESSED else (path.lower(), "")


def exists(path: str) -> bool:
    """Whether a local or remote file is there."""
    if files.is_remote(path):
        import tensorflow as tf

        return tf.io.gfile.exists(path) and not tf.io.gfile.isdir(path)
    return os.path.isfile(path)


def text_files(folder: str) -> list[str] | None:
    """Names of a folder's `.txt` files, sorted; None where it is no folder.

    Hidden ones are left out, as in a shell: macOS packs a `._1.txt` of its own
    beside a `1.txt`.
    """
    is_folder, names_in = os.path.isdir, os.listdir
    if files.is_remote(folder):
        import tensorflow as tf

        is_folder, names_in = tf.io.gfile.isdir, tf.io.gfile.listdir
    if not is_folder(folder):
        return None
    names = (n for n in names_in(folder) if not n.startswith("."))
    return sorted(n for n in names if n.endswith(".txt"))


def require_file(directory: str, *names: str) -> str:
    """`find_file`, or an error that lists what was looked for."""
    path = find_file(directory, *names)
    if path is None:
        raise UserError(
            f"`{directory}` holds none of {', '.join(names)} (plain, .gz or "
            ".xz); check --data_dir and --task_name"
        )
    return path


def packed(path: str) -> str:
    """`path`, or the packed file of that name: sets are named as published.

    Raises UserError: neither is there.
    """
    existing = find_file(*os.path.split(path))
    if existing is None and not files.exists(path):  # a pipe is no regular file
        others = " and ".join(path + suffix for suffix in COMPRESSED)
        raise UserError(
            f"{path} is not a file that can be read, nor are {others}"
        )
    return existing or path


def read_lines(
    path: str,
    bad: BadRows,
    other_bytes: Callable[[bytes], str] | None = None,
) -> Iterator[tuple[int, str]]:
    """(line number, text without its end) of every line.

    A byte order mark at the start and blank lines at the end are dropped.
    `other_bytes` makes text of lines in another encoding; nothing is reported
    then. Raises UserError: the file cannot be read, is of another encoding or
    of other line ends.
    """
    for number, text, problem in numbered_lines(path, other_bytes):
        if problem:
            bad.report(f"{path}:{number}", problem)
        else:
            yield number, text


def read_text(path: str, bad: BadRows) -> str:
    """All lines of a file, joined with LF; CR is white space in it.

    Raises UserError: as `read_lines`; or there are more than `MAX_VALUE_BYTES`.
    """
    parts: list[str] = []
    lines: list[str] = []
    left = MAX_VALUE_BYTES
    # SQuAD's training files are one line of 30 and 42 MB.
    for number, text, problem in _decoded(path, None, longest=left):
        left -= len(text) + 1
        if left < 0:
            raise UserError(
                f"{path}: wanted at most {MAX_VALUE_BYTES >> 20} MiB in one "
                "file, found more; give several files"
            )
        if problem:
            bad.report(f"{path}:{number}", problem)
        else:
            lines.append(text)
        if len(lines) == _TOGETHER:  # a packed file may hold millions
            parts.append("\n".join(lines))
            lines = []
    return "\n".join(parts + lines)


def numbered_lines(
    path: str, other_bytes: Callable[[bytes], str] | None = None
) -> Iterator[tuple[int, str, str]]:
    """(number, text, problem) of every line; see `read_lines`.

    A line with a problem has a text all the same, as far as it can be read.
    """
    blank: list[list] = []  # first number, text, count: there may be millions
    for line in _decoded(path, other_bytes, encodings.other_line_ends):
        number, text, problem = line
        if not text.strip(" ") and not problem:
            if not blank or blank[-1][1] != text:
                blank.append([number, text, 0])
            blank[-1][2] += 1
            continue
        for first, spaces, count in blank:
            yield from ((first + i, spaces, "") for i in range(count))
        blank.clear()
        yield line


def hash_content(path: str) -> str | None:
    """SHA-256 of what a file holds, packed or not; None for no regular file.

    Raises UserError: it cannot be read.
    """
    path = find_file(*os.path.split(path)) or path
    if not exists(path):
        return None
    digest = hashlib.sha256()
    with opened(path) as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


@contextlib.contextmanager
def opened(path: str) -> Iterator[IO[bytes]]:
    """A file's bytes, unpacked by its ending; UserError: it cannot be read."""
    _, packing = unpacked_name(path)
    try:
        with files.as_os_errors(path), files.open_binary(path) as raw:
            stream = raw
            if packing:
                source = (
                    io.BytesIO(raw.read()) if files.is_remote(path) else raw
                )
                stream = COMPRESSED[packing](source)
            yield stream
    except (FileNotFoundError, IsADirectoryError) as e:
        raise UserError(f"{path} is not a file that can be read") from e
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as e:
        raise UserError(f"{path} cannot be read: {e}") from e


def _decoded(
    path: str,
    other_bytes: Callable[[bytes], str] | None,
    *checks: Callable[[bytes], str | None],
    longest: int = 0,
) -> Iterator[tuple[int, str, str]]:
    """(number, text, problem) of every line, blank ones at the end, too."""
    longest = longest or MAX_LINE_BYTES
    with opened(path) as stream:
        first = stream.read(_BLOCK)
        for check in (encodings.refusal, *checks):
            if problem := check(first):
                raise UserError(f"{path}:1: {problem}")
        for number, line in enumerate(_byte_lines(first, stream, longest), 1):
            if number == 1 and line.startswith(b"\xef\xbb\xbf"):
                line = line[3:]
            if len(line) > longest:
                yield number, "", f"line of more than {longest >> 20} MiB"
                continue
            line = line.rstrip(b"\n").removesuffix(b"\r")
            try:
                yield number, line.decode(), ""
            except UnicodeDecodeError as e:
                if other_bytes is not None:
                    yield number, other_bytes(line), ""
                    continue
                yield (
                    number,
                    line.decode(errors="replace"),
                    f"no valid UTF-8 at byte {e.start + 1} of the line "
                    f"{encodings.not_utf8(e)}",
                )


def _byte_lines(first: bytes, stream, longest: int) -> Iterator[bytes]:
    """Lines of a binary stream; GFile has no readline for bytes everywhere.

    Of a line of more than `longest` bytes only the beginning, which is longer
    than that, too: a small packed file may unpack to a line without an end.
    """
    parts, size, block = [], 0, first
    while block:
        *lines, rest = block.split(b"\n")
        for line in lines:
            yield b"".join((*parts, line))
            parts, size = [], 0
        if size <= longest:
            parts.append(rest)
            size += len(rest)
        block = stream.read(_BLOCK)
    if size:
        yield b"".join(parts)


def read_tsv(path: str, bad: BadRows, columns: int | None = None):
    """Rows of a TSV without quoting; empty lines are reported.

    `columns` is their wanted number; None takes the first row's.
    """
    for number, line in read_lines(path, bad):
        fields = line.split("\t")
        if columns is None:
            columns = len(fields)
        if wrong_columns(f"{path}:{number}", fields, columns, bad):
            continue
        yield Row(f"{path}:{number}", fields)


def wrong_columns(
    where: str, fields: list[str], columns: int, bad: BadRows
) -> bool:
    """Whether a row has other than so many fields; reports it."""
    if len(fields) == columns:
        return False
    if len(fields) <= 1 and not "".join(fields).strip():
        bad.report(where, f"empty row, wanted {columns} columns")
    else:
        bad.report(where, f"wanted {columns} columns, found {len(fields)}")
    return True


def read_jsonl(path: str, bad: BadRows) -> Iterator[tuple[str, dict]]:
    """("file:line", object) of every line.

    Other JSON values, keys that are given twice and texts with half of a
    surrogate pair are reported.
    """
    for number, line in read_lines(path, bad):
        where = f"{path}:{number}"
        if not line.strip():
            continue
        try:
            value = parse_json(line)
        except (ValueError, RecursionError) as e:
            hint = _SPREAD if line.strip() in ("[", "[{", "{") else ""
            bad.report(where, f"no valid JSON ({e}){hint}")
            continue
        if not isinstance(value, dict):
            found = type(value).__name__
            hint = _SPREAD if found == "list" else ""
            bad.report(where, f"wanted a JSON object, found {found}{hint}")
            continue
        if problem := half_pair(line, value):
            bad.report(where, problem)
            continue
        yield where, value


def read_accepted(path: str, bad: BadRows) -> Iterator[tuple[str, dict]]:
    """`read_jsonl` for labels: rows that an annotator did not accept are left out.

    Prodigy's exports keep them, with "answer": "reject" or "ignore" and a
    `_task_hash`; their labels and spans are what the annotator refused.
    """
    left_out = 0
    for where, value in read_jsonl(path, bad):
        if "_task_hash" in value and value.get("answer", "accept") != "accept":
            left_out += 1
            continue
        yield where, value
    if left_out:
        bad.say(
            f"{path}: {left_out} rows without the answer 'accept' are left out"
        )


def half_pair(line: str, value: Mapping[str, object]) -> str | None:
    """The field of a line's JSON object whose text is none; see `encodings`."""
    if "\\u" not in line:  # UTF-8 itself has no half
        return None
    for name, field in value.items():
        text = json.dumps([name, field], ensure_ascii=False)
        if problem := encodings.half_pair(text):
            return f"the field {name!r}: {problem}"
    return None


def read_json(path: str) -> object:
    """The one JSON value of a file.

    Raises UserError: unreadable, no UTF-8 or no JSON, with the line; or too
    much.
    """
    text = read_text(path, BadRows())
    memory.check_json(text, path)
    try:
        return parse_json(text)
    except json.JSONDecodeError as e:
        raise UserError(
            f"{path}:{e.lineno}: no valid JSON ({e.msg}, column {e.colno})"
        ) from e
    except ValueError as e:  # a key twice, a number of thousands of digits
        raise UserError(f"{path}: no valid JSON ({e})") from e
    except RecursionError as e:
        raise UserError(f"{path}: JSON is nested too deeply") from e
