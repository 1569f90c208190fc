"""Folders of records: equal ones, and whether Beam can make them."""

import filecmp
import importlib.util
import os
import shutil

from data.pretraining.lanes import LaneReader
from data.pretraining.manifest import PretrainingManifest
from data.pretraining.options import ReaderOptions

HAS_BEAM = importlib.util.find_spec("apache_beam") is not None


def records_of(path):
    return sorted(n for n in os.listdir(path) if "tfrecord" in n)


def assert_equal_builds(a, b):
    assert records_of(a) == records_of(b)
    _, wrong, errors = filecmp.cmpfiles(a, b, records_of(a), shallow=False)
    assert not wrong and not errors
    others = set(os.listdir(a)) - set(records_of(a))
    assert all(name.endswith((".json", ".model")) for name in others)


def copy_of(manifest, folder, name):
    path = folder / name
    shutil.copytree(manifest.data_dir, path)
    return path


def read_all(path):
    manifest = PretrainingManifest.load(str(path))
    reader = LaneReader(manifest, ReaderOptions(global_batch=2, repeat=False))
    for _ in reader.chunks():
        pass
