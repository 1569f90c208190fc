"""Pretraining batches as a data set of TensorFlow."""

import pytest

from common.contract.schema import PRETRAIN_BATCH
from common.errors import UserError
from data.pretraining.options import ReaderOptions
from data.pretraining.reader import make_dataset
from tests.helpers.runs import builds
from training.step.guards import translate_errors


def test_the_dataset_follows_the_schema(tmp_path):
    manifest = builds.run(tmp_path)
    options = ReaderOptions(global_batch=4, start_step=7, read_ahead=2)
    dataset = make_dataset(manifest.data_dir, options)
    sizes = {"B": 4, "T": 48, "P": manifest.num_predict}
    for name, field in PRETRAIN_BATCH.items():
        spec = dataset.element_spec[name]
        assert spec.shape == [sizes[x] for x in field.shape.split()], name
        assert spec.dtype.name == field.dtype, name
    batch = next(dataset.as_numpy_iterator())
    again = next(make_dataset(manifest, options).as_numpy_iterator())
    for name in batch:
        assert (batch[name] == again[name]).all()
    once = ReaderOptions(global_batch=4, repeat=False)
    steps = sum(1 for _ in make_dataset(manifest, once))
    lanes = manifest.lanes("train")
    assert steps == -(-lanes // 2) * manifest.segments_per_lane["train"]


def test_errors_come_through_tf_data(tmp_path):
    manifest = builds.run(tmp_path)
    path = tmp_path / "out" / manifest.files[0].name
    data = bytearray(path.read_bytes())
    for at in range(100, len(data), manifest.format.record_size):
        data[at] ^= 1
    path.write_bytes(data)
    dataset = make_dataset(
        manifest, ReaderOptions(global_batch=2, repeat=False)
    )
    with pytest.raises(UserError, match="wrong checksum") as info:
        with translate_errors(1, None):
            for _ in dataset:
                pass
    assert path.name in str(info.value) and "\n" not in str(info.value)
