"""Reading text files line by line: globs, gzip, JSONL, remote paths (L1).

Memory does not grow with a file. No TensorFlow unless a path is remote.
"""

import contextlib
import glob
import gzip
import json
import os
from collections.abc import Iterator

from common import files
from common.errors import UserError


def expand_globs(patterns: str) -> list[str]:
    """Files of comma-separated globs, sorted, each once.

    Raises:
      UserError: a pattern matches no file.
    """
    found: set[str] = set()
    for pattern in filter(None, (p.strip() for p in patterns.split(","))):
        if files.is_remote(pattern):
            import tensorflow as tf

            matches = tf.io.gfile.glob(pattern)
        else:
            matches = [p for p in glob.glob(pattern) if os.path.isfile(p)]
        if not matches:
            raise UserError(f"no file matches {pattern!r}: check the path")
        found.update(matches)
    if not found:
        raise UserError("no input files given: set --input_glob=PATTERN[,...]")
    return sorted(found)


def read_lines(path: str) -> Iterator[str]:
    """Lines of a file without their ends; `\\r\\n` counts as one end.

    `.gz` is unpacked. A `.jsonl` (or `.jsonl.gz`) file gives the lines of each
    record's `text`, and an empty line after every record: a record is a
    document.

    Raises:
      UserError: bytes that are not UTF-8, broken gzip, a JSON line without a
        `text` string; with file and line.
    """
    is_jsonl = path.removesuffix(".gz").endswith(".jsonl")
    for number, line in _decoded(path):
        if not is_jsonl:
            yield line
        elif line.strip():
            yield from _text_of_record(path, number, line).splitlines()
            yield ""


def _decoded(path: str) -> Iterator[tuple[int, str]]:
    number = 0
    with contextlib.ExitStack() as stack:
        f = stack.enter_context(files.open_binary(path))
        if path.endswith(".gz"):
            f = stack.enter_context(gzip.GzipFile(fileobj=f))
        lines = iter(f)
        while True:
            number += 1
            try:
                line = next(lines, None)
                if line is None:
                    return
                yield number, line.decode("utf-8").rstrip("\r\n")
            except UnicodeDecodeError as e:
                raise UserError(
                    f"{path}:{number}: not valid UTF-8 (byte {e.start} of the "
                    "line); convert the file with iconv"
                ) from e
            except (gzip.BadGzipFile, EOFError) as e:
                raise UserError(
                    f"{path}:{number}: broken gzip data: {e}"
                ) from e


def _text_of_record(path: str, number: int, line: str) -> str:
    try:
        record = json.loads(line)
    except ValueError as e:
        raise UserError(f"{path}:{number}: not valid JSON: {e}") from e
    text = record.get("text") if isinstance(record, dict) else None
    if not isinstance(text, str):
        raise UserError(
            f"{path}:{number}: wanted an object with a string `text`, found "
            f"{line[:60]!r}"
        )
    return text
