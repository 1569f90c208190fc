"""Records: TensorFlow reads them."""

import numpy as np
import pytest

from common.errors import UserError
from data.pretraining.manifest import META, make_format
from data.records import record_format


@pytest.mark.parametrize("vocab_size", [1000, 70000])
def test_round_trip_and_tensorflow(tmp_path, vocab_size):
    import tensorflow as tf

    layout = make_format(20, 3, vocab_size)
    rng = np.random.default_rng(0)
    arrays = {
        "input_ids": rng.integers(0, vocab_size, (5, 20)),
        "meta": rng.integers(0, 9, (5, 8), np.int32).view(META)[:, 0],
        "ranks": rng.integers(-1, 21, (5, 20)),
        "target_positions": rng.integers(0, 20, (5, 3)),
    }
    path = str(tmp_path / "x.tfrecord")
    layout.encode(arrays).tofile(path)
    with open(path, "rb") as f:
        records = layout.read(f, path, 1, 4)
        assert layout.find_corrupt(records) is None
        with pytest.raises(UserError, match="ends at record 5"):
            layout.read(f, path, 4, 3)
    for name, value in layout.decode(records).items():
        assert (value == arrays[name][1:]).all(), name
    # TensorFlow checks the checksums itself.
    found = list(tf.data.TFRecordDataset(path).as_numpy_iterator())
    assert len(found) == 5
    example = tf.train.Example.FromString(found[2])
    ids = example.features.feature["input_ids"].bytes_list.value[0]
    dtype = layout.features[0].dtype
    assert (np.frombuffer(ids, dtype) == arrays["input_ids"][2]).all()


def test_crc32c_known_values():
    rows = np.frombuffer(b"123456789", np.uint8)[None]
    assert record_format.crc32c(rows)[0] == 0xE3069283
    assert (
        record_format.crc32c(np.zeros((2, 32), np.uint8)).tolist()
        == [0x8A9136AA] * 2
    )
    ones = np.full((1, 32), 0xFF, np.uint8)
    assert record_format.crc32c(ones)[0] == 0x62A8AB43


def test_crc32c_against_the_bitwise_definition():
    rng = np.random.default_rng(0)
    for length in (4, 5, 63, 64, 65, 200):
        data = rng.integers(0, 256, (3, length), dtype=np.uint8)
        for row, found in zip(data, record_format.crc32c(data), strict=True):
            state = 0xFFFFFFFF
            for byte in row:
                state ^= int(byte)
                for _ in range(8):
                    state = (state >> 1) ^ (0x82F63B78 if state & 1 else 0)
            assert found == state ^ 0xFFFFFFFF
