"""The bytes of a record, and files of them.

A record is a `tf.train.Example` whose features are bytes of fixed length, so
every record of a data set has the same size: files are seekable by arithmetic,
and thousands of records are made and read as one numpy matrix. The writer fills
the variable bytes of a template; nothing is serialised record by record.
"""

import dataclasses
import functools
import os
from collections.abc import Sequence
from typing import IO

import numpy as np

from common.errors import UserError
from common.vocabularies.protobuf import field

HEADER = 12  # length and its masked CRC
FOOTER = 4  # masked CRC of the data


@dataclasses.dataclass(frozen=True)
class Feature:
    """One bytes feature: little-endian items of fixed number.

    A structured dtype is one item with named fields; its arrays have no last
    axis.
    """

    name: str
    dtype: str | np.dtype
    items: int = 1

    @property
    def size(self) -> int:
        """Bytes."""
        return np.dtype(self.dtype).itemsize * self.items

    @property
    def structured(self) -> bool:
        """Whether the item has named fields."""
        return np.dtype(self.dtype).names is not None

    def zeros(self, n: int) -> np.ndarray:
        """The array of n empty records."""
        shape = (n,) if self.structured else (n, self.items)
        return np.zeros(shape, self.dtype)


def ids_dtype(vocab_size: int) -> str:
    """Token ids 0..V-1: uint16 where they fit, else int32."""
    return "<u2" if vocab_size <= 1 << 16 else "<i4"


class RecordFormat:
    """The records of one data set; `features` stand in the file's order.

    `data_size` is the bytes of one serialised Example, `record_size` those with
    length and checksums.
    """

    def __init__(self, features: Sequence[Feature]):
        self.features = tuple(features)
        self._make_template()

    def _make_template(self) -> None:
        body, self._places = b"", {}
        for feature in self.features:
            zeros = bytes(feature.size)
            value = field(1, field(1, zeros))  # Feature.bytes_list.value
            entry = field(1, feature.name.encode()) + field(2, value)
            body += field(1, entry)
            # The bytes are the end of their entry.
            self._places[feature.name] = len(body) - feature.size
        example = field(1, body)
        shift = len(example) - len(body)
        self._places = {k: v + shift for k, v in self._places.items()}
        self.data_size = len(example)
        self.record_size = HEADER + self.data_size + FOOTER
        length = np.frombuffer(
            np.uint64(self.data_size).astype("<u8").tobytes(), np.uint8
        )
        length_crc = masked(crc32c(length[None]))
        head = length.tobytes() + length_crc.astype("<u4").tobytes()
        self._template = np.frombuffer(head + example + bytes(FOOTER), np.uint8)

    def encode(self, arrays: dict[str, np.ndarray]) -> np.ndarray:
        """Arrays of n rows -> uint8 [n, record_size], ready to be written."""
        n = len(arrays[self.features[0].name])
        out = np.empty((n, self.record_size), np.uint8)
        out[:] = self._template
        for feature in self.features:
            value = np.ascontiguousarray(
                arrays[feature.name].astype(feature.dtype, copy=False)
            )
            start = HEADER + self._places[feature.name]
            out[:, start : start + feature.size] = value.reshape(n, -1).view(
                np.uint8
            )
        crc = masked(crc32c(out[:, HEADER:-FOOTER]))
        out[:, -FOOTER:] = crc.astype("<u4")[:, None].view(np.uint8)
        return out

    def decode(self, records: np.ndarray) -> dict[str, np.ndarray]:
        """uint8 [n, record_size] -> arrays of n rows in their file dtypes."""
        arrays = {}
        for feature in self.features:
            start = HEADER + self._places[feature.name]
            part = records[:, start : start + feature.size]
            value = np.ascontiguousarray(part).view(feature.dtype)
            arrays[feature.name] = value[:, 0] if feature.structured else value
        return arrays

    def zeros(self, n: int) -> dict[str, np.ndarray]:
        """The arrays of n empty records."""
        return {f.name: f.zeros(n) for f in self.features}

    def find_corrupt(self, records: np.ndarray) -> tuple[int, str] | None:
        """The first bad record of a matrix and what is wrong with it."""
        wrong = (records[:, :HEADER] != self._template[:HEADER]).any(axis=1)
        what = "wrong length or length checksum"
        if not wrong.any():
            crc = masked(crc32c(records[:, HEADER:-FOOTER]))
            stored = np.ascontiguousarray(records[:, -FOOTER:]).view("<u4")
            wrong = stored[:, 0] != crc
            what = "wrong checksum of the data"
        if not wrong.any():
            return None
        return int(np.argmax(wrong)), what

    def read(self, f: IO[bytes], path: str, first: int, n: int) -> np.ndarray:
        """Records first..first+n-1 of a file; UserError: it ends before."""
        f.seek(first * self.record_size)
        data = f.read(n * self.record_size)
        whole = len(data) // self.record_size
        if whole < n:
            raise UserError(
                f"{os.path.basename(path)}: wanted records {first}.."
                f"{first + n - 1}, the file ends at record {first + whole}; "
                "build the data again"
            )
        return np.frombuffer(data, np.uint8).reshape(n, self.record_size)


_POLYNOMIAL = 0x82F63B78  # reflected
_MASK_DELTA = 0xA282EAD8
_PIECE = 64  # bytes that one vectorised loop goes through


@functools.lru_cache(maxsize=4)
def _advance_tables(num_bytes: int) -> tuple[np.ndarray, np.ndarray]:
    """Tables of the low and high half: the register after zero bytes."""
    columns = []
    for bit in range(32):
        state = 1 << bit
        for _ in range(8 * num_bytes):
            state = (state >> 1) ^ (_POLYNOMIAL if state & 1 else 0)
        columns.append(state)
    halves = []
    for part in (columns[:16], columns[16:]):
        table = np.zeros(1, "<u4")
        for column in part:
            table = np.concatenate([table, table ^ np.uint32(column)])
        halves.append(table)
    return halves[0], halves[1]


def _advance(state: np.ndarray, num_bytes: int, spare) -> None:
    """Moves registers, `state` uint32 [n], through zero bytes, in place.

    `spare`: uint32 [n] and intp [n] that it may write to.
    """
    low, high = _advance_tables(num_bytes)
    other, index = spare
    halves = state.view("<u2").reshape(-1, 2)
    # "wrap": with another mode `take` would look at all indices before.
    index[:] = halves[:, 1]
    high.take(index, out=other, mode="wrap")
    index[:] = halves[:, 0]
    low.take(index, out=state, mode="wrap")
    state ^= other


def _spare(n: int) -> tuple[np.ndarray, np.ndarray]:
    return np.empty(n, "<u4"), np.empty(n, np.intp)


def crc32c(data: np.ndarray) -> np.ndarray:
    """CRC-32C, uint32 [n], of each row of uint8 [n, L], L >= 4.

    Data workers import no TensorFlow, and a loop over bytes would cost more
    than everything else: the sum is vectorised over records and pieces of
    them. It rests on linearity: with a zero start the register after a message
    is the XOR, over its words, of the word moved through the zero bytes that
    follow it.
    """
    n, length = data.shape
    if length < 4:
        raise ValueError(f"rows must have at least 4 bytes, received {length}")
    pieces = -(-length // _PIECE)
    # Zero bytes in front of a message do not move a zero register; starting
    # from all ones is the same as inverting the first four bytes.
    padded = np.zeros((n, pieces * _PIECE), np.uint8)
    start = pieces * _PIECE - length
    padded[:, start:] = data
    padded[:, start : start + 4] ^= 0xFF
    words = padded.view("<u4").reshape(n * pieces, _PIECE // 4)
    state = np.zeros(n * pieces, "<u4")
    spare = _spare(len(state))
    for word in range(words.shape[1]):
        state ^= words[:, word]
        _advance(state, 4, spare)
    state = np.ascontiguousarray(state.reshape(n, pieces).T)
    total, spare = np.zeros(n, "<u4"), _spare(n)
    for piece in state:
        _advance(total, _PIECE, spare)
        total ^= piece
    return ~total


def masked(crc: np.ndarray) -> np.ndarray:
    """TFRecord's masked form of uint32 sums."""
    rotated = (crc >> np.uint32(15)) | (crc << np.uint32(17))
    return rotated + np.uint32(_MASK_DELTA)
