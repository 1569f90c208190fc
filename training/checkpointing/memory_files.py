"""Recurrent memory beside a checkpoint, in files by range of global rows.

    model.ckpt-20.memory/
      index.json               which file holds which rows, checksums; last
      rows-00000000-00000004   one record per row: rows 0, 1, 2, 3
      rows-00000004-00000008

A record is the row's valid length, int32, then its L x M x D values as they are
in memory, little-endian. Every process writes the ranges of its own rows, each
with a description beside it, and the chief makes the index of all
descriptions. A reader takes the records of its rows from whatever files hold
them, so another number of processes goes on with the same memory.
"""

import dataclasses
import json
import os
import threading
import zlib
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from common import files
from common.errors import UserError
from modeling.checkpoints import folder as checkpoint_folder
from modeling.checkpoints import native

INDEX = "index.json"
_SUFFIX = ".memory"
_FORMAT = 1
_LENGTH = np.dtype("<i4")


@dataclasses.dataclass(frozen=True)
class HostRows:
    """Memory of some rows in host memory."""

    numbers: np.ndarray  # int [n], their global rows, ascending
    layers: list[np.ndarray]  # L arrays [n, M, D]
    length: np.ndarray  # int32 [n], valid slots

    @property
    def facts(self) -> dict:
        """What the files of all processes share."""
        slots, width = self.layers[0].shape[1:]
        return {
            "dtype": tf.as_dtype(self.layers[0].dtype).name,
            "shape": [len(self.layers), slots, width],
        }


def folder_of(path: str) -> str:
    """Where the memory of a checkpoint is."""
    return path + _SUFFIX


# --- Writing -------------------------------------------------------------------


def _step_of(folder: str) -> int:
    """Of its checkpoint; -1 where it has no number."""
    return checkpoint_folder.step_of(folder.removesuffix(_SUFFIX))


def write(folder: str, rows: HostRows) -> None:
    """Writes one process's rows under their final names; raises OSError."""
    files.make_directory(folder)
    ends = np.flatnonzero(np.diff(rows.numbers) != 1) + 1
    for part in np.split(np.arange(len(rows.numbers)), ends):
        first = int(rows.numbers[part[0]])
        name = f"rows-{first:08d}-{first + len(part):08d}"
        checksums = []
        with files.atomic_open(os.path.join(folder, name)) as f:
            for i in part:
                checksum = 0
                for piece in _record(rows, i):
                    checksum = zlib.crc32(piece, checksum)
                    f.write(piece)
                checksums.append(checksum)
        entry = {"name": name, "first": first, "crc32": checksums}
        # After the rows: what is described is there.
        files.write_json(
            os.path.join(folder, f"{name}.json"), rows.facts | {"file": entry}
        )


def _record(rows: HostRows, i: int) -> Iterator[bytes]:
    yield rows.length[i : i + 1].astype(_LENGTH).tobytes()
    for layer in rows.layers:
        yield layer[i].tobytes()


def write_index(folder: str, count: int, given_up: threading.Event) -> bool:
    """Waits for the rows of all processes, then makes the index; is it there?

    Raises OSError: it cannot be written.
    """
    pause = 0.01
    while True:
        names = [n for n in files.list_names(folder) if n.endswith(".json")]
        parts = [
            json.loads(files.read_bytes(os.path.join(folder, name)))
            for name in sorted(set(names) - {INDEX})
        ]
        entries = [part.pop("file") for part in parts]
        if sum(len(entry["crc32"]) for entry in entries) >= count:
            break
        if given_up.wait(pause):
            return False
        pause = min(1.0, 2 * pause)
    index = parts[0] | {"format": _FORMAT, "rows": count, "files": entries}
    index["step"] = _step_of(folder)
    files.write_json(os.path.join(folder, INDEX), index)
    for entry in entries:
        files.remove(os.path.join(folder, entry["name"] + ".json"))
    return True


# --- Reading -------------------------------------------------------------------


class SavedMemory:
    """The memory of a checkpoint: `rows` of the global batch, L, M, D.

    Raises UserError: the index is damaged.
    """

    def __init__(self, path: str):
        self._folder = folder_of(path)
        name = os.path.join(self._folder, INDEX)
        index = files.read_json_object(name, "the checkpoint has no memory")
        try:
            if index["format"] != _FORMAT:
                raise ValueError(f"format {index['format']}")
            step, own = index.get("step", -1), _step_of(self._folder)
            if -1 not in (step, own) and step != own:
                raise ValueError(f"it is of step {step}")
            self.rows = int(index["rows"])
            self.shape = tuple(int(n) for n in index["shape"])
            self._dtype = np.dtype(tf.as_dtype(index["dtype"]).as_numpy_dtype)
            self._place = {
                entry["first"] + i: (entry["name"], i, checksum)
                for entry in index["files"]
                for i, checksum in enumerate(entry["crc32"])
            }
            missing = set(range(self.rows)) - set(self._place)
            if missing:
                raise ValueError(f"no row {min(missing)}")
        except (KeyError, TypeError, ValueError) as e:
            raise self._damaged(name, f"{type(e).__name__} {e}") from e

    @staticmethod
    def _damaged(path: str, what: str) -> UserError:
        return UserError(
            f"{path} is damaged ({what}); give --memory_checkpoint=recompute "
            "to make the memory again, or --reset_memory to start with an "
            "empty one"
        )

    def read(self, numbers: np.ndarray) -> HostRows:
        """Memory of some global rows, int [n] ascending.

        Raises UserError: a file is missing or damaged.
        """
        layers = [
            np.empty((len(numbers), *self.shape[1:]), self._dtype)
            for _ in range(self.shape[0])
        ]
        length = np.empty(len(numbers), np.int32)
        size = layers[0][0].nbytes
        record = _LENGTH.itemsize + size * len(layers)
        opened, f = None, None
        try:
            for i, number in enumerate(numbers):
                name, row, checksum = self._place[int(number)]
                if name != opened:
                    if f:
                        f.close()
                    opened = name
                    f = files.open_binary(os.path.join(self._folder, name))
                f.seek(row * record)
                data = f.read(record)
                if len(data) != record or zlib.crc32(data) != checksum:
                    raise ValueError(f"row {number} has another checksum")
                length[i] = np.frombuffer(data, _LENGTH, 1)[0]
                values = np.frombuffer(data, self._dtype, offset=4)
                values = values.reshape(self.shape)
                for layer, value in zip(layers, values, strict=True):
                    layer[i] = value
        except (OSError, ValueError, tf.errors.OpError) as e:
            path = os.path.join(self._folder, opened)
            raise self._damaged(path, str(e).splitlines()[0]) from e
        finally:
            if f:
                f.close()
        return HostRows(np.asarray(numbers), layers, length)


class OldSavedMemory:
    """Memory inside of the checkpoint itself, as it was kept before."""

    _NAME = "memory/{}/.ATTRIBUTES/VARIABLE_VALUE"

    def __init__(self, path: str):
        self._reader = native.open_reader(path)
        shapes = self._reader.get_variable_to_shape_map()
        self._layers = 0
        while self._NAME.format(f"layers/{self._layers}") in shapes:
            self._layers += 1
        first = shapes[self._NAME.format("layers/0")]
        self.rows, self.shape = first[0], (self._layers, *first[1:])

    @classmethod
    def is_in(cls, path: str) -> bool:
        """Whether a checkpoint is such a one."""
        reader = native.open_reader(path)
        return reader.has_tensor(cls._NAME.format("length"))

    def read(self, numbers: np.ndarray) -> HostRows:
        """Memory of some global rows, int [n] ascending."""
        get = self._reader.get_tensor
        return HostRows(
            np.asarray(numbers),
            [
                get(self._NAME.format(f"layers/{i}"))[numbers]
                for i in range(self._layers)
            ],
            get(self._NAME.format("length"))[numbers],
        )


def open_memory(path: str) -> SavedMemory | OldSavedMemory | None:
    """The memory of a checkpoint, maybe None; UserError if damaged."""
    if files.exists(folder_of(path)):
        return SavedMemory(path)
    return OldSavedMemory(path) if OldSavedMemory.is_in(path) else None
