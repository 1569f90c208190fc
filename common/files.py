"""Atomic writes: a reader sees the old content or the new, never half of it.

Local paths need only the standard library (data workers import no TensorFlow:
that alone takes 826 MB). Paths with a scheme (`gs://...`) go through
`tf.io.gfile`.
"""

import contextlib
import errno
import fcntl
import functools
import hashlib
import json
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any

from common.errors import UserError
from common.process import memory

NOTE = "file: "  # begins the note that `about` adds to an error


@contextlib.contextmanager
def about(path: str) -> Iterator[None]:
    """Errors that pass by carry the name of a file (`flags.faults`).

    Errors of writing, of archives and of JSON do not know it.
    """
    try:
        yield
    except Exception as e:
        e.add_note(NOTE + path)
        raise


# Reading raises none of these: what is written is meant.
_WRITING = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)


def _name_written(error: BaseException, path: str) -> None:
    if isinstance(error, OSError) and error.errno in _WRITING:
        error.add_note(NOTE + path)


@contextlib.contextmanager
def writing(path: str) -> Iterator[None]:
    """Errors of writing that pass by carry the name of the file."""
    try:
        yield
    except OSError as e:
        _name_written(e, path)
        raise


@contextlib.contextmanager
def temporary_folder() -> Iterator[str]:
    """A folder for the block; errors of writing name the place of such files."""
    place = f"{tempfile.gettempdir()}, where temporary files go (TMPDIR)"
    with tempfile.TemporaryDirectory() as folder, writing(place):
        yield folder


def check_output(path: str) -> None:
    """Before work that takes long: a new file can be made where `path` will be.

    The folders above it need not be there. Raises OSError as the first write
    would.
    """
    if is_remote(path):
        return  # a bucket says so at the first write only
    folder = os.path.dirname(os.path.abspath(path))
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as e:
        raise OSError(e.errno, os.strerror(e.errno or 0), path) from e


def refuse_input(output: str, inputs: Iterable[str]) -> None:
    """Raises UserError where the output is an input, by whatever name."""
    for path in inputs if output else ():
        same = path == output
        if not is_remote(path) and not is_remote(output):
            there = os.path.exists(path) and os.path.exists(output)
            same = same or there and os.path.samefile(path, output)
        if same:
            raise UserError(
                f"{output} would replace the input {path}: give the output "
                "another name"
            )


def refuse_existing(output: str) -> None:
    """Raises UserError where an --output_file would take another's place."""
    if output and exists(output):
        what = "is no file:"
        if is_remote(output) or os.path.isfile(output):
            what = "exists and is complete: remove it or"
        raise UserError(f"--output_file={output} {what} give another name")


def is_remote(path: str) -> bool:
    """True for paths with a scheme such as `gs://bucket/file`."""
    return "://" in path


def temporary_name(path: str) -> str:
    """A sibling name of `path` that carries this process's id."""
    head, tail = os.path.split(path)
    return os.path.join(head, f".{tail}.tmp-{os.getpid()}")


def final_name(path: str) -> str:
    """What a temporary name is going to be called; other names stay."""
    path = re.sub(r"(^|/)\.([^/]+)\.tmp-\d+", r"\1\2", path)
    path = re.sub(r"\.tmp[0-9a-f]{32}$", "", path)  # TensorFlow's, of files
    return re.sub(r"_temp/part-.*", "", path)  # TensorFlow's, of checkpoints


@contextlib.contextmanager
def atomic_open(path: str, mode: str = "wb") -> Iterator[IO[Any]]:
    """Opens a temporary sibling and renames it to `path` when all went well.

    Text is UTF-8. Folders above it that are missing are made. After an
    exception the temporary file is removed and `path` is as it was. That of a
    killed process goes with the next write.
    """
    if mode not in ("wb", "w"):
        raise ValueError(f"`mode` must be 'wb' or 'w', received {mode!r}")
    temporary = temporary_name(path)
    if is_remote(path):
        with _atomic_open_remote(path, temporary, mode) as f:
            yield f
        return
    encoding = None if mode == "wb" else "utf-8"
    _remove_old(path)
    try:
        with _create(temporary, mode, encoding) as f:
            yield f
            f.flush()
            os.fsync(f.fileno())
            os.replace(temporary, path)  # before the lock is free
    except BaseException as e:
        _name_written(e, path)
        with contextlib.suppress(FileNotFoundError):
            os.remove(temporary)
        raise


def _create(path: str, mode: str, encoding: str | None = None) -> IO[Any]:
    """Opens a temporary file that is new: a link of that name is not followed.

    Makes the folders above it. A killed process of the same number may have
    left one. While it is open a lock says that it is in use (`_remove_old`).
    """
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        os.remove(path)
    file = open(path, mode.replace("w", "x"), encoding=encoding)
    with contextlib.suppress(OSError):  # no such locks there
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return file


def _remove_old(path: str) -> None:
    """Temporary files of `path` that killed processes left.

    Such a file is a regular one, nobody has its lock, and no process of this
    host has its number. Another host's process has the lock.
    """
    folder, name = os.path.split(path)
    for number in _old_temporaries(folder or ".").pop(name, ()):
        old = os.path.join(folder, f".{name}.tmp-{number}")
        with contextlib.suppress(OSError):  # gone, another's, or in use
            if number == os.getpid() or not stat.S_ISREG(os.lstat(old).st_mode):
                continue
            with open(old, "r+b", opener=_no_link) as f:
                fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
                try:
                    os.kill(number, 0)
                except ProcessLookupError:
                    os.remove(old)


def _no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


@functools.cache
def _old_temporaries(folder: str) -> dict[str, list[int]]:
    """Final name -> processes, of what lies there before the first write.

    Once per folder: one of records has thousands of files.
    """
    found: dict[str, list[int]] = {}
    with contextlib.suppress(OSError):  # the write says what is wrong
        for name in os.listdir(folder):
            if match := re.fullmatch(r"\.(.+)\.tmp-(\d{1,9})", name, re.DOTALL):
                found.setdefault(match[1], []).append(int(match[2]))
    return found


@contextlib.contextmanager
def atomic_path(path: str) -> Iterator[str]:
    """Gives a library a name to write to; the file then becomes `path`.

    For libraries that take a name and no open file. Folders above it that are
    missing are made. Some libraries make their files for
    the owner alone; `path` gets the mode that `open` would have given it.
    After an exception nothing is left and `path` is as it was.
    """
    if is_remote(path):
        with temporary_folder() as folder:
            name = os.path.join(folder, os.path.basename(path))
            yield name
            with open(name, "rb") as source, atomic_open(path) as target:
                shutil.copyfileobj(source, target, 1 << 20)
        return
    temporary = temporary_name(path)
    _remove_old(path)
    try:
        with _create(temporary, "wb") as f:
            mode = stat.S_IMODE(os.fstat(f.fileno()).st_mode)
            yield temporary
            os.chmod(temporary, mode)
            with open(temporary, "rb") as whole:
                os.fsync(whole.fileno())
            os.replace(temporary, path)
    except BaseException as e:
        if isinstance(e, Exception):  # a library's own has no name, either
            e.add_note(NOTE + path)
        with contextlib.suppress(FileNotFoundError):
            os.remove(temporary)
        raise


@contextlib.contextmanager
def _atomic_open_remote(
    path: str, temporary: str, mode: str
) -> Iterator[IO[Any]]:
    import tensorflow as tf

    try:
        with tf.io.gfile.GFile(temporary, mode) as f:
            yield f
        tf.io.gfile.rename(temporary, path, overwrite=True)
    except BaseException:
        if tf.io.gfile.exists(temporary):
            tf.io.gfile.remove(temporary)
        raise


def write_text(path: str, text: str) -> None:
    """Writes `text` as UTF-8, atomically."""
    with atomic_open(path, "w") as f:
        f.write(text)


def write_json(path: str, value: Any) -> None:
    """Writes `value` as indented JSON with sorted keys, atomically."""
    write_text(path, json.dumps(value, indent=2, sort_keys=True) + "\n")


def read_json_object(path: str, hint: str) -> dict[str, Any]:
    """The object in a JSON file.

    Raises UserError: missing, no JSON, JSON of another type, or too much of it.
    """
    try:
        content = read_bytes(path)
        memory.check_json(content, path)
        value = json.loads(content)
    except (FileNotFoundError, NotADirectoryError) as e:
        raise UserError(f"{path} does not exist: {hint}") from e
    except (ValueError, RecursionError) as e:
        raise UserError(f"{path} is not valid JSON: {e}") from e
    if not isinstance(value, dict):
        raise UserError(
            f"{path}: wanted a JSON object, found {str(value)[:60]!r}"
        )
    return value


def sha256_of_file(path: str) -> str:
    """Hex SHA-256 of a local or remote file, read in blocks of 1 MiB."""
    digest = hashlib.sha256()
    with as_os_errors(path), open_binary(path) as f:
        while block := f.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def open_binary(path: str) -> IO[bytes]:
    """Opens a local or remote file for reading bytes."""
    if is_remote(path):
        import tensorflow as tf

        return tf.io.gfile.GFile(path, "rb")
    return open(path, "rb")


@contextlib.contextmanager
def as_os_errors(path: str) -> Iterator[None]:
    """TensorFlow's errors of a remote file become `OSError`s."""
    if not is_remote(path):
        yield
        return
    import tensorflow as tf

    try:
        yield
    except tf.errors.NotFoundError as e:
        why = e.message or os.strerror(errno.ENOENT)
        raise FileNotFoundError(errno.ENOENT, why, path) from e
    except tf.errors.PermissionDeniedError as e:
        raise PermissionError(errno.EACCES, e.message, path) from e
    except tf.errors.OpError as e:
        said = (n for n in errno.errorcode if os.strerror(n) in e.message)
        if number := next(said, None):  # `flags.faults` has a line for it
            raise OSError(number, e.message, path) from e
        raise OSError(e.message) from e


def _ask(path: str, local: Callable[[str], Any], remote: str) -> Any:
    """`local(path)`, or `remote` of `tf.io.gfile`; raises OSError."""
    if not is_remote(path):
        return local(path)
    import tensorflow as tf

    with as_os_errors(path):
        return getattr(tf.io.gfile, remote)(path)


def exists(path: str) -> bool:
    """Whether there is a file or folder."""
    return _ask(path, os.path.exists, "exists")


def is_folder(path: str) -> bool:
    """Whether there is a folder."""
    return _ask(path, os.path.isdir, "isdir")


def read_bytes(path: str, most: int = -1) -> bytes:
    """All bytes of a file, or the first `most`; OSError if it has none."""
    with as_os_errors(path), open_binary(path) as f:
        return f.read(most)


def size(path: str) -> int:
    """Bytes of a file as it lies there."""
    status = _ask(path, os.path.getsize, "stat")
    return getattr(status, "length", status)


def make_directory(path: str) -> None:
    """Makes a folder and the ones above it."""
    _ask(path, functools.partial(os.makedirs, exist_ok=True), "makedirs")


def list_names(path: str) -> list[str]:
    """Names of what lies in a folder."""
    return [name.rstrip("/") for name in _ask(path, os.listdir, "listdir")]


def beginning_with(prefix: str) -> list[str]:
    """Paths of the files and folders whose path begins so, sorted; maybe none.

    A user's path is never a pattern: `[ ] * ?` are signs like all others.
    """
    folder, start = os.path.split(prefix)
    try:
        names = list_names(folder or ".")
    except (FileNotFoundError, NotADirectoryError):
        return []
    matching = sorted(name for name in names if name.startswith(start))
    return [os.path.join(folder, name) for name in matching]


# Open folders (device, inode) -> descriptor, for `plain_folder`.
_opened: dict[tuple[int, int], int] = {}


def plain_folder(folder: str) -> str:
    """Another path of a folder, without the signs of a pattern.

    TensorFlow's readers of checkpoints and SavedModels take the path for a
    pattern, so they find nothing in a folder with `[`, `*`, `?` or a backslash
    in its path. What is written or listed needs no such path. A path by
    descriptor, for this process alone; `folder` itself where it has no sign.

    Raises:
      UserError: there is no such path (a bucket, a system without /proc).
      OSError: the folder cannot be opened.
    """
    if not re.search(r"[\[*?\\]", folder):
        return folder
    if is_remote(folder) or not os.path.isdir("/proc/self/fd"):
        raise UserError(
            f"{folder}: TensorFlow takes [ * ? and \\ in a path for a pattern; "
            "rename the folder"
        )
    status = os.stat(folder)
    key = (status.st_dev, status.st_ino)
    if key not in _opened:
        _opened[key] = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    return f"/proc/self/fd/{_opened[key]}"


def remove(path: str) -> None:
    """Removes a file."""
    _ask(path, os.remove, "remove")
