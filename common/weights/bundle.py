"""What the index of a checkpoint says, checked before TensorFlow reads it.

TensorFlow believes an index: a shape of a negative size ends the process, a
huge one takes memory before anything is read, and entries that lie upon each
other give many times the numbers that are in the file. Here every entry must
lie within its data file, and all together must not be longer than the files.

The index is a table of sorted rows: blocks of (bytes shared with the key before,
length of the rest, length of the value, rest, value), each followed by one byte
of compression and a checksum, then a block that names them, then a footer.
"""

import math
import os
from collections.abc import Iterator

from common import files
from common.errors import UserError

_FOOTER = 48
# The last bytes of a table of TensorFlow, so of every whole `.index`.
MAGIC = bytes.fromhex("57fb808b247547db")
_TRAILER = 5  # compression, checksum
_NAMES = 16  # bytes of all names for each byte of the file
_MAX_BYTES = 1 << 28  # of an index; a million tensors take less


class _Damaged(Exception):
    """What is wrong, in words."""


def check(prefix: str) -> None:
    """UserError unless a checkpoint's index is readable and fits its data."""
    path = prefix + ".index"
    try:
        if files.size(path) > _MAX_BYTES:
            raise _Damaged(f"wanted at most {_MAX_BYTES >> 20} MiB")
        _check_rows(prefix, list(_rows(files.read_bytes(path))))
    except OSError as e:
        why = e.strerror or str(e)
        raise UserError(f"{path} cannot be read: {why}") from e
    except (_Damaged, IndexError) as e:
        what = str(e) if isinstance(e, _Damaged) else "it is cut"
        raise UserError(
            f"{path} is damaged: {what}; take another copy of the checkpoint"
        ) from e


def _check_rows(prefix: str, rows: list[tuple[bytes, bytes]]) -> None:
    import tensorflow as tf
    from google.protobuf import message
    from tensorflow.core.protobuf import tensor_bundle_pb2

    if not rows or rows[0][0]:
        raise _Damaged("it has no header")
    try:
        header = tensor_bundle_pb2.BundleHeaderProto.FromString(rows[0][1])
        entries = {
            key: tensor_bundle_pb2.BundleEntryProto.FromString(value)
            for key, value in rows[1:]
        }
    except message.DecodeError:
        raise _Damaged("a row is not one of a checkpoint") from None
    shards = _Shards(prefix, header.num_shards)
    room = sum(map(shards.size, {e.shard_id for e in entries.values()}))
    stored = 0
    for key, entry in entries.items():
        name = f"`{key.decode(errors='replace')[:60]}`"
        sizes = [dim.size for dim in entry.shape.dim]
        if min(sizes, default=0) < 0 or entry.shape.unknown_rank:
            raise _Damaged(f"{name} has the shape {sizes[:9]}")
        end = entry.offset + entry.size
        if min(entry.offset, entry.size) < 0 or (
            end > shards.size(entry.shard_id)
        ):
            raise _Damaged(
                f"{name} ends at byte {end}, the data file has "
                f"{shards.size(entry.shard_id)}"
            )
        stored += entry.size
        # A string has a byte of length at least; others are as they are.
        is_text = entry.dtype == tf.string.as_datatype_enum
        width = 1 if is_text else _width(tf, entry.dtype)
        if math.prod(sizes) * width > (room if entry.slices else entry.size):
            raise _Damaged(
                f"{name} has {entry.size} bytes and the shape {sizes[:9]}"
            )
    if stored > room:
        raise _Damaged("its tensors overlap")


def _width(tf, number: int) -> int:
    """Bytes of a number of a type; variants have a size of their own."""
    try:
        return tf.dtypes.as_dtype(number).size
    except TypeError:
        raise _Damaged(f"there is no type {number}") from None


class _Shards:
    """Sizes of the data files of a checkpoint."""

    def __init__(self, prefix: str, count: int):
        self._prefix, self._count = prefix, count
        self._sizes: dict[int, int] = {}

    def size(self, number: int) -> int:
        if not 0 <= number < self._count:
            raise _Damaged(f"there is no data file {number} of {self._count}")
        if number not in self._sizes:
            name = f".data-{number:05}-of-{self._count:05}"
            try:
                self._sizes[number] = files.size(self._prefix + name)
            except OSError as e:
                base = os.path.basename(self._prefix)
                raise _Damaged(f"{base}{name}: {e.strerror or e}") from e
        return self._sizes[number]


def _rows(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """(key, value) of a table, in its order."""
    footer = data[-_FOOTER:]
    if len(footer) < _FOOTER or not footer.endswith(MAGIC):
        raise _Damaged("its end is not that of a checkpoint's index")
    at = 0
    numbers = []
    for _ in range(4):
        number, at = _varint(footer, at)
        numbers.append(number)
    left = len(data)  # blocks do not lie upon each other
    names = _NAMES * len(data)  # keys that share much are longer than the file
    for _, offset in _block(data, *numbers[2:]):
        start, at = _varint(offset, 0)
        size, _ = _varint(offset, at)
        left -= size
        if left < 0:
            raise _Damaged("its blocks overlap")
        for key, value in _block(data, start, size):
            names -= len(key)
            if names < 0:
                raise _Damaged("its names are longer than the file")
            yield key, value


def _block(data: bytes, start: int, size: int) -> Iterator[tuple[bytes, bytes]]:
    end = start + size
    if end + _TRAILER > len(data) or size < 4:
        raise _Damaged("a block lies outside of it")
    if data[end]:
        raise _Damaged("a block is compressed, as TensorFlow never does")
    restarts = int.from_bytes(data[end - 4 : end], "little")
    end -= 4 + 4 * restarts
    at, key = start, b""
    while at < end:
        shared, at = _varint(data, at)
        own, at = _varint(data, at)
        length, at = _varint(data, at)
        if shared > len(key) or at + own + length > end:
            raise _Damaged("a row lies outside of its block")
        key = key[:shared] + data[at : at + own]
        at += own
        yield key, data[at : at + length]
        at += length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """(number, where it ends)."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
        if shift > 63:
            raise _Damaged("a number has no end")
