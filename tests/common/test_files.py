"""Atomic writes: mode, content, and nothing left after an exception."""

import os
import pathlib
import stat

import pytest

from common import files
from common.errors import UserError


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


@pytest.mark.parametrize("plant", [os.symlink, os.link])
def test_a_planted_temporary_name_harms_no_other_file(tmp_path, plant):
    victim, path = tmp_path / "victim", str(tmp_path / "a.json")
    victim.write_text("mine")

    def by_name():
        with files.atomic_path(path) as name:
            with open(name, "w") as f:
                f.write("new")

    for write in (lambda: files.write_text(path, "new"), by_name):
        plant(victim, files.temporary_name(path))
        write()
        assert victim.read_text() == "mine"
        with open(path) as f:
            assert f.read() == "new"
        assert sorted(os.listdir(tmp_path)) == ["a.json", "victim"]


def test_signs_of_patterns_are_letters(tmp_path):
    for name in ("a[1]x", "a[1]", "a1", "b"):
        (tmp_path / name).touch()
    start = str(tmp_path / "a[1]")
    assert files.beginning_with(start) == [start, start + "x"]
    assert files.beginning_with(str(tmp_path / "none" / "a")) == []
    odd = tmp_path / "o*[d"
    odd.mkdir()
    (odd / "f").write_text("x")
    plain = files.plain_folder(str(odd))
    assert plain == files.plain_folder(str(odd)) and not {*"[*?"} & {*plain}
    assert os.listdir(plain) == ["f"]
    assert files.plain_folder(str(tmp_path)) == str(tmp_path)
    with pytest.raises(UserError, match="rename the folder"):
        files.plain_folder("gs://b/[1]")
