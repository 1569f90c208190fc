"""Fields are those of the protocol buffers' own classes."""

import pytest
import tensorflow as tf

from common.vocabularies import protobuf


@pytest.mark.parametrize("size", [0, 1, 127, 128, 300, 2**14, 2**21])
def test_a_field_of_any_size(size):
    wanted = tf.train.BytesList(value=[b"x" * size]).SerializeToString()
    assert protobuf.field(1, b"x" * size) == wanted
    assert wanted == protobuf.header(1, size) + b"x" * size


def test_a_number_of_two_bytes_and_a_field_in_a_field():
    inner = protobuf.field(1, b"key")
    assert protobuf.field(300, inner) == b"\xe2\x12\x05" + b"\n\x03key"
