"""Which errors become a line, and which keep their trace."""

import errno
import gzip
import io
import json
import os
import pickle
import tempfile
import zlib

import pytest
import tensorflow as tf

from common import files
from common.errors import UserError
from flags.faults import line_of

HINT = "{{function_node __wrapped__SaveV2_device_/job:localhost/task:0}} "


def raised(function):
    """The error with its trace."""
    with pytest.raises(Exception) as e:
        function()
    return e.value


def about(path, error):
    def function():
        with files.about(path):
            raise error

    return raised(function)


@pytest.mark.parametrize(
    "error, parts",
    [
        (UserError("a, found b; do c"), ["a, found b; do c"]),
        (
            OSError(errno.ENOSPC, "x", "/a/.b.tmp-12"),
            ["/a/b: the disk is full"],
        ),
        (OSError(errno.EROFS, "x", "/a/b"), ["/a/b", "read-only"]),
        (PermissionError(errno.EACCES, "x", "/a/b"), ["/a/b: permission"]),
        (
            tf.errors.DataLossError(None, None, HINT + "bad /m/x.index"),
            ["/m/x"],
        ),
        (
            tf.errors.ResourceExhaustedError(
                None, None, HINT + "/m/.3.tmp-4/v.data; No space left on device"
            ),
            ["/m/3/v.data: the disk is full"],
        ),
        (
            tf.errors.ResourceExhaustedError(
                None, None, f"/m/1/v.pb.tmp{'0a' * 16}; No space left on device"
            ),
            ["/m/1/v.pb: the disk is full"],
        ),
        (
            tf.errors.OutOfRangeError(
                None, None, "Read less bytes than requested [Op:RestoreV2]"
            ),
            ["checkpoint's file is damaged"],
        ),
        (
            tf.errors.ResourceExhaustedError(None, None, "OOM when allocating"),
            ["out of memory", "smaller batch"],
        ),
        (MemoryError(), ["out of memory"]),
        (about("/t.gz", zlib.error("invalid")), ["/t.gz is damaged"]),
        (about("/t.gz", EOFError("ended")), ["/t.gz is damaged"]),
    ],
)
def test_the_surroundings_faults_are_one_line(error, parts):
    line = line_of(error)
    assert line and "\n" not in line
    for part in parts:
        assert part in line


def test_a_link_to_nothing_is_told_from_what_exists(tmp_path):
    link = tmp_path / "out"
    link.symlink_to(tmp_path / "gone")
    error = raised(lambda: os.makedirs(link, exist_ok=True))
    assert line_of(error) == (
        f"{link}: it is a link to what is not there; make that or remove the "
        "link"
    )
    (tmp_path / "gone").touch()
    error = raised(lambda: os.makedirs(link, exist_ok=True))
    assert "it exists already" in line_of(error)


def test_faults_of_what_is_read_know_their_file():
    cut = gzip.compress(b"x" * 999)[:-9]
    error = raised(lambda: gzip.GzipFile(fileobj=io.BytesIO(cut)).read())
    assert "damaged or cut off" in line_of(error)
    deep = raised(lambda: json.loads("[" * 100_000))
    assert "nested too deeply" in line_of(deep)
    assert "not valid JSON" in line_of(raised(lambda: json.loads("{")))
    assert "not UTF-8" in line_of(raised(b"\xe9 ".decode))


def recursion():
    return recursion()


@pytest.mark.parametrize(
    "error",
    [
        ValueError("x"),
        KeyError("x"),
        TypeError("x"),
        EOFError(),
        RuntimeError("x"),
        OSError("no number"),
        OSError(errno.EBADF, "x"),
        tf.errors.InvalidArgumentError(None, None, "shapes differ"),
        tf.errors.FailedPreconditionError(None, None, "variable x is not set"),
        tf.errors.OutOfRangeError(None, None, "End of sequence"),
        tf.errors.NotFoundError(None, None, "no kernel for op X"),
        tf.errors.InternalError(None, None, "x"),
    ],
)
def test_mistakes_of_the_program_keep_their_trace(error):
    assert line_of(error) is None
    assert line_of(raised(recursion)) is None


def test_the_name_survives_a_worker_and_a_failed_write(tmp_path):
    error = about("/t.gz", EOFError("ended"))
    assert "/t.gz" in line_of(pickle.loads(pickle.dumps(error)))
    path = str(tmp_path / "a.txt")

    def write():
        with files.atomic_open(path, "w"):
            raise OSError(errno.ENOSPC, "no room")

    assert line_of(raised(write)).startswith(f"{path}: the disk is full")

    def read():
        with files.atomic_open(path, "w"):
            raise OSError(errno.EIO, "an input", "/other")

    assert line_of(raised(read)).startswith("/other: ")
    assert list(tmp_path.iterdir()) == []


def test_a_full_place_of_temporary_files_is_named():
    """It was "an input or output file"."""

    def write():
        with files.temporary_folder() as folder:
            assert os.path.isdir(folder)
            raise OSError(errno.ENOSPC, "no room")

    place = f"{tempfile.gettempdir()}, where temporary files go (TMPDIR): "
    assert line_of(raised(write)).startswith(place + "the disk is full")


def test_a_link_to_nothing_is_said_to_be_one(tmp_path):
    """Below it was "no such file or folder", of a path that was not given."""
    link, there = tmp_path / "link", tmp_path / "there"
    link.symlink_to(tmp_path / "nowhere")
    there.symlink_to(tmp_path)
    for call in (
        lambda: files.check_output(str(link / "a" / "b")),
        lambda: open(link / "a", "w"),
        lambda: open(link),
        lambda: os.mkdir(link),
    ):
        wanted = f"{link}: it is a link to what is not there; "
        assert line_of(raised(call)).startswith(wanted)
    line = line_of(raised(lambda: open(there / "a" / "b")))
    assert line.startswith(f"{there}/a/b: no such file or folder")


def test_a_place_that_cannot_be_written_is_known_before(tmp_path):
    files.check_output(str(tmp_path / "new" / "folder" / "a"))
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "a").write_text("")
    with pytest.raises(NotADirectoryError, match="a/b/c"):
        files.check_output(str(tmp_path / "a" / "b" / "c"))


def test_no_place_for_temporary_files_is_named(monkeypatch):
    """A full disk or one without writing: it was "no such file or folder"."""
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/proc"])
    line = line_of(raised(tempfile._get_default_tempdir))
    assert "temporary files" in line and "TMPDIR" in line
    assert "['/proc']" in line and "check the path" not in line
