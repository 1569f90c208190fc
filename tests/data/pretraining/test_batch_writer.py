"""Batches that are written are those of the reader."""

import os

import numpy as np
import pytest

from data.pretraining.lanes import LaneReader
from data.pretraining.manifest import PretrainingManifest
from data.pretraining.options import ReaderOptions
from tests.data import builds


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("build")


def test_materialized_batches_are_the_readers(folder):
    manifest = builds.run(folder, "batches", materialize_batches=6)
    (file,) = manifest.batches
    assert file["name"].startswith("batches6") and "tfrecord" in file["name"]
    raw = np.fromfile(os.path.join(manifest.data_dir, file["name"]), np.uint8)
    raw = raw.reshape(-1, manifest.format.record_size)
    assert manifest.format.find_corrupt(raw) is None
    arrays = manifest.format.decode(raw)
    reader = LaneReader(
        PretrainingManifest.load(manifest.data_dir),
        ReaderOptions(global_batch=6, seed=3, repeat=False),
    )
    chunks = list(reader.chunks())
    real = np.concatenate([c["row_weight"] for c in chunks]).reshape(-1) > 0
    for name in ("input_ids", "ranks"):
        wanted = np.concatenate([c[name] for c in chunks]).reshape(-1, 48)
        assert len(wanted) == file["records"]
        assert (arrays[name] == wanted)[real].all()
