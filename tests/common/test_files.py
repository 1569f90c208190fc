"""Atomic writes: mode, content, and nothing left after an exception."""

import contextlib
import errno
import os
import pathlib
import signal
import stat
import subprocess
import sys

import pytest

from common import files
from common.errors import UserError

ROOT = pathlib.Path(files.__file__).parents[1]


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


def test_only_a_file_is_to_be_removed_for_another(tmp_path):
    """The advice was the same for a folder or a device."""
    files.refuse_existing("")
    files.refuse_existing(str(tmp_path / "new"))
    (tmp_path / "old").write_text("x")
    with pytest.raises(UserError, match="old exists and is complete: remove"):
        files.refuse_existing(str(tmp_path / "old"))
    for path in (str(tmp_path), os.devnull):
        with pytest.raises(UserError, match="is no file: give another name"):
            files.refuse_existing(path)


def test_a_failed_write_to_a_name_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")
    with pytest.raises(RuntimeError), files.atomic_path(str(path)) as name:
        pathlib.Path(name).write_bytes(b"half")
        raise RuntimeError
    assert [p.name for p in tmp_path.iterdir()] == ["a.bin"]
    assert path.read_bytes() == b"old"


def test_missing_folders_are_made(tmp_path):
    first, second = (str(tmp_path / n / "b" / "c.txt") for n in "ad")
    files.write_text(first, "x")
    with files.atomic_path(second) as name:
        pathlib.Path(name).write_text("x")
    for path in (first, second):
        assert os.listdir(os.path.dirname(path)) == ["c.txt"]


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


def test_a_file_that_a_bucket_lacks_is_missing_as_on_a_disk(tmp_path):
    for folder in (str(tmp_path), "ram://missing"):
        path = f"{folder}/a.json"
        for read in (files.read_bytes, files.sha256_of_file):
            with pytest.raises(FileNotFoundError):
                read(path)
        with pytest.raises(UserError, match="a.json does not exist: copy it"):
            files.read_json_object(path, "copy it")


@pytest.mark.parametrize(
    "error, message, number",
    [
        ("PermissionDeniedError", "403", errno.EACCES),
        ("FailedPreconditionError", "gs://b; Is a directory", errno.EISDIR),
        ("UnavailableError", "503", None),
    ],
)
def test_errors_of_a_bucket_are_those_of_a_disk(error, message, number):
    import tensorflow as tf

    kind = getattr(tf.errors, error)
    with pytest.raises(OSError, match=message) as found:
        with files.as_os_errors("gs://b/a"):
            raise kind(None, None, message)
    assert found.value.errno == number
    assert found.value.filename == (number and "gs://b/a")
    with pytest.raises(kind), files.as_os_errors("a"):
        raise kind(None, None, message)


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


WRITER = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from common import files
with getattr(files, sys.argv[2])(sys.argv[3]) as f:
    print("open", flush=True)
    sys.stdin.readline()
    if sys.argv[2] == "atomic_path":
        with open(f, "wb") as own:
            own.write(b"first")
    else:
        f.write(b"first")
"""


@contextlib.contextmanager
def writer(way, path):
    """A process that holds the temporary file open until it gets a line."""
    command = [sys.executable, "-c", WRITER, str(ROOT), way, str(path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"open\n"
        yield process


def write(way, path):
    files._old_temporaries.cache_clear()  # as another process begins
    with getattr(files, way)(str(path)) as f:
        if way == "atomic_path":
            pathlib.Path(f).write_bytes(b"second")
        else:
            f.write(b"second")


@pytest.mark.parametrize("way", ["atomic_open", "atomic_path"])
def test_the_temporary_file_of_a_killed_process_goes(tmp_path, way):
    path = tmp_path / "a.json"
    other = tmp_path / ".b.json.tmp-1"
    other.write_bytes(b"of another file")
    with writer(way, path) as process:
        process.send_signal(signal.SIGKILL)
    assert len(list(tmp_path.iterdir())) == 2
    write(way, path)
    assert {p.name for p in tmp_path.iterdir()} == {"a.json", other.name}
    assert path.read_bytes() == b"second"


@pytest.mark.parametrize("way", ["atomic_open", "atomic_path"])
def test_a_process_that_still_writes_keeps_its_temporary_file(
    tmp_path, way, monkeypatch
):
    """Of another host its number says nothing: the lock does."""
    path = tmp_path / "a.json"

    def gone(*unused):
        raise ProcessLookupError

    with writer(way, path) as process:
        with monkeypatch.context() as patch:
            patch.setattr(files.os, "kill", gone)
            write(way, path)
        assert path.read_bytes() == b"second"
        assert process.communicate(b"\n")[0] == b""
    assert process.returncode == 0
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]
    assert path.read_bytes() == b"first"


@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
def test_only_files_are_taken_for_leftovers(tmp_path, kind):
    path, target = tmp_path / "a.json", tmp_path / "target"
    target.write_bytes(b"kept")
    planted = tmp_path / ".a.json.tmp-999999999"
    if kind == "link":
        planted.symlink_to(target)
    elif kind == "folder":
        planted.mkdir()
    else:
        os.mkfifo(planted)
    write("atomic_open", path)
    assert planted.is_symlink() or planted.exists()
    assert target.read_bytes() == b"kept"
