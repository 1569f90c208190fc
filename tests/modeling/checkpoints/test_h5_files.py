"""HDF5 files that are no plain weights."""

import numpy as np
import pytest

from common.errors import UserError
from common.weights.released_weights import H5
from modeling.checkpoints import h5_files

h5py = pytest.importorskip("h5py")


def _h5(path, make):
    with h5py.File(path, "w") as f:
        make(f)
    return str(path)


KEY = "bert/tf_model/bert/x/kernel:0"


def _external(f):
    f.create_dataset(KEY, (4,), "f4", external=[("/etc/hostname", 0, 16)])


def _packed(f):
    f.create_dataset(KEY, data=np.zeros((1 << 20,), "f4"), compression="gzip")


def _virtual(f):
    layout = h5py.VirtualLayout((4,), "f4")
    layout[:] = h5py.VirtualSource("/etc/hostname", "x", (4,))
    f.create_virtual_dataset(KEY, layout)


def _hole(f):
    """Room that was never written: nothing in the file."""
    f.create_dataset(KEY, (1 << 28,), "f4")


def _words(f):
    f[KEY] = b"text"


def _twice(f):
    f[KEY] = np.zeros((2, 2), "f4")
    f["other/tf_model/bert/x/weight:0"] = np.zeros((2, 2), "f4")


def _deep(f):
    for _ in range(60):
        f = f.create_group("g")
    f["kernel:0"] = np.zeros((2, 2), "f4")


def test_hdf5_of_many_groups(tmp_path, monkeypatch):
    monkeypatch.setattr(h5_files, "_MOST", 5)
    with pytest.raises(UserError, match="more than 5 objects"):
        h5_files.load(_h5(tmp_path / H5, lambda f: _deep_groups(f, 6)))


def _deep_groups(f, count):
    for i in range(count):
        f.create_group(f"g{i}")


@pytest.mark.parametrize(
    "make,message",
    [
        (_deep, "more than 50 deep"),
        (_external, "stored in another way"),
        (_packed, "stored in another way"),
        (_virtual, "stored in another way"),
        (_words, "stored in another way"),
        (_hole, "longer than the file"),
        (_twice, "holds `bert.x.weight` twice"),
        (lambda f: f.create_group("empty"), "found none"),
    ],
)
def test_hdf5_that_is_no_plain_weights(tmp_path, make, message):
    with pytest.raises(UserError, match=message):
        h5_files.load(_h5(tmp_path / H5, make))


def test_hdf5_links_to_other_files_are_not_followed(tmp_path):
    other = _h5(tmp_path / "other.h5", lambda f: f.__setitem__(KEY, [1.0]))

    def make(f):
        f["bert"] = h5py.ExternalLink(other, "/bert")
        f["a/m/b/bias:0"] = np.ones(3, "f4")
        f["soft"] = h5py.SoftLink("/a")

    found = h5_files.load(_h5(tmp_path / H5, make))
    assert list(found) == ["b.bias"]


@pytest.mark.parametrize("content", [b"", b"\x89HDF\r\n\x1a\n", b"x" * 99])
def test_damaged_hdf5(tmp_path, content):
    (tmp_path / H5).write_bytes(content)
    with pytest.raises(UserError, match="not a readable HDF5"):
        h5_files.load(str(tmp_path / H5))
    with pytest.raises(UserError, match="not a readable HDF5"):
        h5_files.load(str(tmp_path / "none.h5"))
