"""Damaged records and ids are named by file and record."""

import os

import numpy as np
import pytest

from common.errors import UserError
from tests.data.records.built_folders import copy_of, read_all, records_of
from tests.helpers.runs import builds


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("build")


def test_damage_is_named(folder):
    manifest = builds.run(folder, "good")
    name = records_of(manifest.data_dir)[1]
    size = manifest.format.record_size

    def damage(label, change):
        path = copy_of(manifest, folder, "damaged-" + label)
        change(path / name)
        return path

    def flip(at):
        def change(file):
            data = bytearray(file.read_bytes())
            data[at] ^= 1
            file.write_bytes(data)

        return change

    with pytest.raises(UserError, match=f"{name}: record 3: wrong checksum"):
        read_all(damage("bit", flip(3 * size + 100)))
    with pytest.raises(UserError, match=f"{name}: record 2: wrong length"):
        read_all(damage("length", flip(2 * size + 1)))
    cut = damage("cut", lambda f: f.write_bytes(f.read_bytes()[:-5]))
    with pytest.raises(UserError, match=f"{name}: wanted .* bytes"):
        read_all(cut)
    with pytest.raises(UserError, match=f"{name} is missing"):
        read_all(damage("gone", lambda f: f.unlink()))

    def swap(file):  # forward for backward: same size may be, other lanes not
        other = file.parent / name.replace("backward", "forward")
        if other == file:
            other = file.parent / name.replace("forward", "backward")
        data = other.read_bytes()
        wanted = len(file.read_bytes())
        file.write_bytes((data * 2)[:wanted])

    with pytest.raises(UserError, match=f"{name}: record .*: another lane"):
        read_all(damage("swapped", swap))


def test_ids_out_of_range_are_named(folder):
    manifest = builds.run(folder, "ids")
    name = manifest.select("train", "forward", 0)[0].name
    path = os.path.join(manifest.data_dir, name)
    raw = np.fromfile(path, np.uint8).reshape(-1, manifest.format.record_size)
    arrays = manifest.format.decode(raw)
    arrays["input_ids"][4, 7] = manifest.vocab_size
    manifest.format.encode(arrays).tofile(path)
    with pytest.raises(UserError, match=f"{name}: record 4: an id"):
        read_all(manifest.data_dir)
