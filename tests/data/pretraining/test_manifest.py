"""Records of format 1, and what a manifest requires."""

import tarfile

import numpy as np
import pytest

from common.errors import UserError
from data.pretraining import report as record_report
from data.pretraining.lanes import LaneReader
from data.pretraining.manifest import PretrainingManifest, make_format
from data.pretraining.options import ReaderOptions
from tests.golden import FIRST_FORMAT
from tests.helpers.runs import builds

# Of all batches of two rows with seed 1, made by the code of format 1.
_DIGESTS = {
    "": "dfc0973f00a6555071c8ddcd3ccaee548d42d9dd36d7fdb6c9bd9aaf14590195",
    "resample_permutation": (
        "63cb52baf49166c7438859e9e18ca8b8db74ed66da8da5586b19f11e9fe43a4b"
    ),
}


@pytest.fixture(scope="module")
def first_format(tmp_path_factory):
    path = tmp_path_factory.mktemp("format1")
    with tarfile.open(FIRST_FORMAT) as archive:
        archive.extractall(path, filter="data")
    return str(path / "records")


@pytest.mark.parametrize("draw", _DIGESTS)
def test_records_of_format_1_are_read_as_they_were(first_format, draw):
    import hashlib

    manifest = PretrainingManifest.load(first_format)
    assert manifest.format_version == 1
    options = ReaderOptions(
        global_batch=2, seed=1, repeat=False, **({draw: True} if draw else {})
    )
    digest = hashlib.sha256()
    for chunk in LaneReader(manifest, options).chunks():
        for name in sorted(chunk):
            digest.update(name.encode())
            digest.update(np.ascontiguousarray(chunk[name]).tobytes())
    assert digest.hexdigest() == _DIGESTS[draw]


def test_targets_of_format_1_are_not_drawn_anew(first_format):
    manifest = PretrainingManifest.load(first_format)
    options = ReaderOptions(global_batch=2, resample_targets=True)
    with pytest.raises(UserError, match="found .* of --sampler=context"):
        LaneReader(manifest, options)


def test_format_1_is_inspected(first_format):
    lines = []
    record_report.check_directory(
        PretrainingManifest.load(first_format), lines.append
    )
    assert "found not known" in lines[-1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("lanes")


@pytest.fixture(scope="module")
def manifest(folder):
    return builds.run(folder, num_passes=2)


def test_manifest_requires(manifest):
    PretrainingManifest.load(manifest.data_dir).require(
        seq_len=48, reuse_len=None
    )
    with pytest.raises(UserError, match="seq_len: wanted 64, found 48"):
        manifest.require(seq_len=64, num_predict=8)


def test_smaller_than_the_originals_record():
    assert make_format(512, 85, 32000).record_size < 2600
