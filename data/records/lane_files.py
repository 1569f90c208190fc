"""Lane numbers -> orders, files, open files."""

import functools
import weakref
from typing import IO

import numpy as np

from common import files
from data.records.manifest import RecordFile

_OPEN_FILES = 128
_SEED_ORDER = 101


@functools.lru_cache(16)
def lane_order(seed: int, direction: int, epoch: int, lanes: int):
    """int64 [lanes]: the order of one epoch's lanes."""
    seeds = np.random.SeedSequence([seed, _SEED_ORDER, epoch, direction])
    rng = np.random.Generator(np.random.PCG64(seeds))
    return rng.permutation(lanes)


class OpenFiles:
    """The files read last, kept open; closed with this object."""

    def __init__(self):
        self._files = {}
        weakref.finalize(self, _close_all, self._files)

    def get(self, path: str) -> IO[bytes]:
        file = self._files.pop(path, None)
        if file is None:
            if len(self._files) >= _OPEN_FILES:
                oldest = next(iter(self._files))
                self._files.pop(oldest).close()
            file = files.open_binary(path)
        self._files[path] = file
        return file


def _close_all(open_files: dict[str, IO[bytes]]) -> None:
    for file in open_files.values():
        file.close()


class LaneTable:
    """Lane numbers of one direction and pass -> files."""

    def __init__(self, record_files: list[RecordFile]):
        self._files = record_files
        self._ends = np.cumsum([f.lanes for f in record_files], dtype=np.int64)
        self.num_lanes = int(self._ends[-1]) if record_files else 0

    def find(self, lane: int) -> tuple[RecordFile, int]:
        """The file of a lane and its number there."""
        index = int(np.searchsorted(self._ends, lane, side="right"))
        before = int(self._ends[index - 1]) if index else 0
        return self._files[index], lane - before
