"""TSV, CSV and JSONL files -> rows with line numbers; nothing fails silently.

Files may be plain, `.gz` or `.xz`, local or any `tf.io.gfile` path. TSV is the
GLUE kind: no quoting, one row per line. CSV is RFC 4180: quotes double, fields
may hold line breaks.
"""

import csv
import dataclasses
import gzip
import io
import json
import lzma
import os
import zlib
from collections.abc import Callable, Iterator

from common import files
from common.errors import UserError
from data.finetuning.examples import BadRows

COMPRESSED = {".gz": gzip.open, ".xz": lzma.open}
MAX_LINE_BYTES = 16 << 20


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


def exists(path: str) -> bool:
    """Whether a local or remote file is there."""
    if files.is_remote(path):
        import tensorflow as tf

        return tf.io.gfile.exists(path) and not tf.io.gfile.isdir(path)
    return os.path.isfile(path)


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

    Raises:
      UserError: neither is there.
    """
    found = find_file(*os.path.split(path))
    if found is None and not files.exists(path):  # a pipe is no regular file
        others = " and ".join(path + suffix for suffix in COMPRESSED)
        raise UserError(f"{path} is no file that can be read, nor are {others}")
    return found or path


def read_lines(
    path: str,
    bad: BadRows,
    other_bytes: Callable[[bytes], str] | None = None,
) -> Iterator[tuple[int, str]]:
    """(line number, text without its end) of every line.

    A byte order mark at the start is dropped.

    Args:
      path: the file.
      bad: receives lines that are no UTF-8.
      other_bytes: makes text of such lines; nothing is reported then.
    """
    suffix = os.path.splitext(path)[1]
    try:
        with files.open_binary(path) as raw:
            stream = raw
            if suffix in COMPRESSED:
                source = (
                    io.BytesIO(raw.read()) if files.is_remote(path) else raw
                )
                stream = COMPRESSED[suffix](source)
            for number, line in enumerate(_byte_lines(stream), 1):
                if number == 1 and line.startswith(b"\xef\xbb\xbf"):
                    line = line[3:]
                if len(line) > MAX_LINE_BYTES:
                    bad.report(f"{path}:{number}", "line of more than 16 MiB")
                    continue
                line = line.rstrip(b"\n").removesuffix(b"\r")
                try:
                    text = line.decode()
                except UnicodeDecodeError as e:
                    if other_bytes is not None:
                        yield number, other_bytes(line)
                        continue
                    bad.report(
                        f"{path}:{number}",
                        f"no valid UTF-8 at byte {e.start + 1} of the line",
                    )
                    continue
                yield number, text
    except (FileNotFoundError, IsADirectoryError) as e:
        raise UserError(f"{path} is no file that can be read") from e
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as e:
        raise UserError(f"{path} cannot be read: {e}") from e


def _byte_lines(stream) -> Iterator[bytes]:
    """Lines of a binary stream; GFile has no readline for bytes everywhere."""
    rest = b""
    while block := stream.read(1 << 20):
        lines = (rest + block).split(b"\n")
        rest = lines.pop()
        yield from lines
    if rest:
        yield rest


def read_tsv(path: str, bad: BadRows, columns: int | None = None):
    """Rows of a TSV without quoting; empty lines are reported.

    Args:
      path: the file.
      bad: receives rows whose number of columns differs.
      columns: wanted number; None takes the first row's.
    """
    for number, line in read_lines(path, bad):
        fields = line.split("\t")
        if columns is None:
            columns = len(fields)
        if _wrong_columns(f"{path}:{number}", fields, columns, bad):
            continue
        yield Row(f"{path}:{number}", fields)


def _wrong_columns(
    where: str, fields: list[str], columns: int, bad: BadRows
) -> bool:
    if len(fields) == columns:
        return False
    if len(fields) <= 1 and not "".join(fields).strip():
        bad.report(where, f"empty row, wanted {columns} columns")
    else:
        bad.report(where, f"wanted {columns} columns, found {len(fields)}")
    return True


def read_csv(path: str, bad: BadRows, columns: int | None = None):
    """Rows of a quoted CSV; `columns` as in `read_tsv`."""
    position = _Position()
    reader = csv.reader(position.lines(read_lines(path, bad)), strict=True)
    while True:
        start = position.number + 1
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as e:
            bad.report(f"{path}:{max(start, 1)}", f"no valid CSV row ({e})")
            continue
        where = f"{path}:{start}"
        if columns is None:
            columns = len(fields)
        if not _wrong_columns(where, fields, columns, bad):
            yield Row(where, fields)


class _Position:
    """The number of the last line that the CSV reader took."""

    def __init__(self):
        self.number = 0

    def lines(self, numbered: Iterator[tuple[int, str]]) -> Iterator[str]:
        """The texts, counted as they are taken."""
        for self.number, text in numbered:
            yield text + "\n"


def read_jsonl(path: str, bad: BadRows) -> Iterator[tuple[str, dict]]:
    """("file:line", object) of every line; other JSON values are reported."""
    for number, line in read_lines(path, bad):
        where = f"{path}:{number}"
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as e:
            bad.report(where, f"no valid JSON ({e})")
            continue
        if not isinstance(value, dict):
            bad.report(
                where, f"wanted a JSON object, found {type(value).__name__}"
            )
            continue
        yield where, value


def read_json(path: str) -> object:
    """The one JSON value of a file.

    Raises:
      UserError: unreadable, no UTF-8 or no JSON, with the line.
    """
    lines = [text for _, text in read_lines(path, BadRows())]
    try:
        return json.loads("\n".join(lines))
    except json.JSONDecodeError as e:
        raise UserError(
            f"{path}:{e.lineno}: no valid JSON ({e.msg}, column {e.colno})"
        ) from e
    except RecursionError as e:
        raise UserError(f"{path}: JSON is nested too deeply") from e
