"""Records: TensorFlow reads them."""

import numpy as np
import pytest

from common.errors import UserError
from data.pretraining.record import META, make_format


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
