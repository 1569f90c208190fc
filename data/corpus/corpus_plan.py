"""Where files are cut into blocks of about equal size."""

import zlib
from collections.abc import Sequence
from typing import IO

from common import files
from common.errors import UserError
from data.corpus import documents as corpus


def plan_blocks(path: str, block_bytes: int) -> list[corpus.Block]:
    """Cuts a file between documents, every `block_bytes` or a little more."""
    return [parts[0] for parts in plan_corpus([path], block_bytes)]


def plan_corpus(
    paths: Sequence[str],
    block_bytes: int,
    longest: int = corpus.LONGEST_DOCUMENT,
) -> list[tuple[corpus.Block, ...]]:
    """Cuts files, one after the other, into runs of about `block_bytes`.

    A run ends where a document ends, as every file does; it goes over as many
    files as fit. Files that are cut elsewhere between documents give the same
    runs. Plain files are cut by seeking, gzipped ones are read through once.
    After `longest` blocks (1 = at once) a run ends where any line does. No part
    of a run is empty. Raises UserError: a file that cannot be read, or is packed
    by another program than gzip.
    """
    cutter = _Cutter(block_bytes, longest)
    for path in paths:
        corpus.check_packing(path)
        if corpus.is_gzip(path):
            cutter.add_stream(path)
        else:
            cutter.add_file(path)
    return cutter.finish()


class _Cutter:
    """Collects parts of files into runs."""

    def __init__(self, block_bytes: int, longest: int):
        self._wanted = block_bytes
        self._limit = longest * block_bytes
        self._runs, self._parts, self._size = [], [], 0

    def _add(self, path: str, start: int, end: int, ends_run: bool) -> None:
        if end > start:
            self._parts.append(corpus.Block(path, start, end))
            self._size += end - start
        if ends_run and self._parts:
            self._runs.append(tuple(self._parts))
            self._parts, self._size = [], 0

    def finish(self) -> list[tuple[corpus.Block, ...]]:
        """All runs, what is left over as the last."""
        self._add("", 0, 0, True)
        return self._runs

    def add_file(self, path: str) -> None:
        """Cuts a plain file."""
        size, start = files.size(path), 0
        while start < size:
            target = start + self._wanted - self._size
            if target >= size:
                self._add(path, start, size, False)
                return
            limit = start + self._limit - self._size
            with corpus.open_text(path) as f:
                f.seek(target)
                end = _next_boundary(f, path, target, limit)
            self._add(path, start, end, True)
            start = end

    def add_stream(self, path: str) -> None:
        """Cuts a gzipped file at the places where it would be cut plain."""
        start = offset = 0
        past = False  # the run is as long as is wanted
        jsonl = corpus.is_jsonl(path)
        try:
            with corpus.open_text(path) as f:
                for line in corpus.read_line_bytes(f, path):
                    offset += len(line)
                    size = self._size + offset - start
                    ends = size >= self._limit
                    ends |= jsonl or not line.strip() if past else jsonl
                    past |= size > self._wanted
                    if past and ends:
                        self._add(path, start, offset, True)
                        start, past = offset, False
        except (OSError, EOFError, zlib.error) as e:
            raise UserError(f"{path}: cannot be read as gzip: {e}") from e
        self._add(path, start, offset, past)


def _next_boundary(f: IO[bytes], path: str, offset: int, limit: int) -> int:
    """The next place, after a whole line, where a document may end."""
    lines = corpus.read_line_bytes(f, path)
    offset += len(next(lines, b""))  # the rest of one
    if corpus.is_jsonl(path):
        return offset
    while offset < limit and (line := next(lines, b"")):
        offset += len(line)
        if not line.strip():
            break
    return offset
