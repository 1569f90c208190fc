"""Indexes of checkpoints that would end the process or take its memory."""

import os
import struct

import pytest
import tensorflow as tf
from tensorflow.core.protobuf import tensor_bundle_pb2

from common.errors import UserError
from common.weights import bundle

BYTES = b"\0" * 24
TEXT = tf.string.as_datatype_enum
FLOAT = tf.float32.as_datatype_enum


def _varint(value):
    found = b""
    while value > 127:
        found, value = found + bytes([value & 127 | 128]), value >> 7
    return found + bytes([value])


def _block(rows):
    """(shared, rest of the key, value) as a block without its trailer."""
    found = b""
    for shared, rest, value in rows:
        lengths = map(_varint, (shared, len(rest), len(value)))
        found += b"".join(lengths) + rest + value
    return found + struct.pack("<II", 0, 1)


def table(rows, blocks=1):
    """A table of one block, which its index names so many times."""
    data, meta = _block(rows), _block([])
    found = data + bytes(5)
    places = [_varint(0) + _varint(len(data)), _varint(len(found))]
    places[1] += _varint(len(meta))
    found += meta + bytes(5)
    names = _block([(0, b"\xff", places[0])] * blocks)
    places.append(_varint(len(found)) + _varint(len(names)))
    footer = (places[1] + places[2]).ljust(40, b"\0")
    return found + names + bytes(5) + footer + bundle.MAGIC


def entry(shape=(2, 3), size=24, offset=0, dtype=FLOAT, shard=0):
    found = tensor_bundle_pb2.BundleEntryProto(
        dtype=dtype, shard_id=shard, offset=offset, size=size
    )
    for length in shape:
        found.shape.dim.add().size = length
    return found.SerializeToString()


HEADER = (0, b"", b"\x08\x01")


@pytest.fixture
def write(tmp_path):
    """Takes the content of an index, gives the prefix."""

    def make(content):
        prefix = str(tmp_path / "model.ckpt-1")
        (tmp_path / "model.ckpt-1.index").write_bytes(content)
        (tmp_path / "model.ckpt-1.data-00000-of-00001").write_bytes(BYTES)
        return prefix

    return make


def test_what_tensorflow_writes_is_accepted(tmp_path):
    """Blocks of many rows, slices, strings, types without a size."""
    prefix = str(tmp_path / "c")
    names = [f"layer_{i}/kernel" for i in range(300)]
    tensors = [tf.zeros([i % 7, 3]) for i in range(299)] + [tf.constant("a")]
    tf.raw_ops.SaveV2(
        prefix=prefix,
        tensor_names=[*names, "part"],
        shape_and_slices=[""] * 300 + ["4 2 1,2:0,2"],
        tensors=[*tensors, tf.ones([2, 2])],
    )
    bundle.check(prefix)
    os.truncate(prefix + ".data-00000-of-00001", 100)
    with pytest.raises(UserError, match="ends at byte .*data file has 100"):
        bundle.check(prefix)
    os.remove(prefix + ".data-00000-of-00001")
    with pytest.raises(UserError, match="data-00000-of-00001: No such file"):
        bundle.check(prefix)


@pytest.mark.parametrize(
    "row,message",
    [
        # TensorFlow ends the process: a check of its own, or a signal.
        (entry((1 << 40, 1 << 40)), "24 bytes and the shape"),
        (entry((-4, -1)), r"the shape \[-4, -1\]"),
        (entry((1 << 27,), dtype=TEXT), "24 bytes and the shape"),
        # It takes the memory first.
        (entry((1 << 30,), size=1 << 32), "the data file has 24"),
        (entry((1 << 20, 1 << 20)), "24 bytes and the shape"),
        (entry(offset=8), "ends at byte 32"),
        (entry(shard=3), "no data file 3 of 1"),
        (entry(dtype=99), "no type 99"),
        (b"\xff", "a row is not one of a checkpoint"),
    ],
)
def test_a_row_that_is_not_in_the_file(write, row, message):
    prefix = write(table([HEADER, (0, b"a", row)]))
    with pytest.raises(UserError, match=message) as caught:
        bundle.check(prefix)
    assert "model.ckpt-1.index is damaged" in str(caught.value)


def test_rows_that_together_are_longer_than_the_file(write):
    one = entry()
    bundle.check(write(table([HEADER, (0, b"a", one)])))
    both = [(0, b"a", one), (0, b"b", entry((1,), 4, 20))]
    with pytest.raises(UserError, match="overlap"):
        bundle.check(write(table([HEADER, *both])))
    # Each name is one sign longer than the one before.
    empty = entry((0,), 0)
    longer = [(i, b"a", empty) for i in range(2000)]
    with pytest.raises(UserError, match="names are longer than the file"):
        bundle.check(write(table([HEADER, *longer])))


def test_tables_that_are_none(write):
    whole = table([HEADER, (0, b"a", entry())])
    for content, message in (
        (b"", "its end is not"),
        (whole[:-1], "its end is not"),
        (table([(0, b"a", entry())]), "no header"),
        (table([HEADER, (9, b"a", entry())]), "outside of its block"),
        (table([HEADER, (0, b"a", b"x" * 50)], 9), "blocks overlap"),
        (b"\1" * 40 + whole[-8:], "outside of it"),
        (b"\xff" * 40 + whole[-8:], "no end"),
        (whole[:30], "its end is not"),
    ):
        with pytest.raises(UserError, match=message):
            bundle.check(write(content))
    data = bytearray(whole)
    data[len(_block([HEADER, (0, b"a", entry())]))] = 1
    with pytest.raises(UserError, match="compressed"):
        bundle.check(write(bytes(data)))
    with pytest.raises(UserError, match="cannot be read"):
        bundle.check("/nowhere/model.ckpt-1")
