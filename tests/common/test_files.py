"""Atomic writes: mode, content, and nothing left after an exception."""

import os
import pathlib
import stat

import pytest

from common import files


@pytest.fixture(params=[0o022, 0o027, 0o077])
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_every_atomic_write_has_the_mode_of_an_ordinary_file(tmp_path, umask):
    (tmp_path / "ordinary").write_text("x")
    files.write_text(str(tmp_path / "text"), "x")
    with files.atomic_path(str(tmp_path / "library")) as name:
        # As safetensors does it: a file for the owner alone, then renamed.
        hidden = pathlib.Path(name + "-hidden")
        hidden.write_text("x")
        hidden.chmod(0o600)
        hidden.rename(name)
    modes = {stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()}
    assert modes == {0o666 & ~umask}
    assert len(list(tmp_path.iterdir())) == 3


def test_a_failed_write_to_a_name_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")
    with pytest.raises(RuntimeError), files.atomic_path(str(path)) as name:
        pathlib.Path(name).write_bytes(b"half")
        raise RuntimeError
    assert [p.name for p in tmp_path.iterdir()] == ["a.bin"]
    assert path.read_bytes() == b"old"
