"""One line for what a command's surroundings do to it (`flags.app`).

A full disk, a damaged file, a cut archive are no mistakes of the program: the
user sees one line that names the file and says what to do. Everything else
keeps its stack trace. Nothing is imported here that a command has not loaded:
TensorFlow's errors are known by their class' name.
"""

import errno
import os
import re
import traceback

from common import files
from common.errors import UserError

_AGAIN = "then run the same command again"
# errno -> (what it means, how to fix it).
SYSTEM = {
    errno.ENOSPC: ("the disk is full", f"free some space, {_AGAIN}"),
    errno.EDQUOT: ("the disk quota is used up", f"free some space, {_AGAIN}"),
    errno.EFBIG: (
        "the file would be larger than this process may write",
        f"raise the limit (ulimit -f) or take another disk, {_AGAIN}",
    ),
    errno.EROFS: ("it is on a read-only disk", "give another place"),
    errno.EACCES: ("permission denied", "give another place, or its rights"),
    errno.EPERM: ("permission denied", "give another place, or its rights"),
    errno.ENOENT: ("no such file or folder", "check the path"),
    errno.ENOTDIR: ("a file stands where a folder is wanted", "check the path"),
    errno.EISDIR: ("a folder stands where a file is wanted", "check the path"),
    errno.EEXIST: ("it exists already", "remove it or give another name"),
    errno.ENOTEMPTY: ("the folder is not empty", "give another name"),
    errno.ENAMETOOLONG: ("the name is too long", "give a shorter one"),
    errno.ELOOP: ("its links go in a circle", "check the path"),
    errno.EIO: ("the disk cannot read or write it", "check the disk"),
    errno.ESTALE: ("the file server lost it", f"mount it again, {_AGAIN}"),
    errno.EMFILE: ("too many open files", "raise the limit (ulimit -n)"),
    errno.ENFILE: ("too many open files", "close other programs"),
    errno.ENOMEM: ("out of memory", "take a smaller batch, or fewer workers"),
}
_DANGLING = (
    "it is a link to what is not there",
    "make that or remove the link",
)
_NO_TEMPORARY = "No usable temporary directory found in"  # Python's words
_DAMAGED = "is damaged or cut off"
_COPY = "copy or make it again"
# Modules whose EOFError says that an archive ends too early.
_ARCHIVES = ("gzip.py", "_compression.py", "lzma.py", "bz2.py", "zipfile.py")
_TENSORFLOW = "tensorflow.python.framework.errors_impl"
# What TensorFlow calls its errors about files. Each is also raised for
# mistakes of a program, so that the message must speak of a file, too.
_OF_FILES = (
    "NotFoundError",
    "FailedPreconditionError",
    "OutOfRangeError",
    "PermissionDeniedError",
    "ResourceExhaustedError",
    "UnknownError",
    "UnavailableError",
    "AlreadyExistsError",
    "InvalidArgumentError",
)
_CHECKPOINT = re.compile(
    r"checkpoint|TensorSliceReader|Unsuccessful|sstable|BundleReader|"
    r"Read less bytes|Corrupted|SavedModel|\.index|\.data-\d",
    re.IGNORECASE,
)
_PLACE = re.compile(r"\{\{[^}]*\}\}\s*|\[Op:\w+\].*$", re.DOTALL)
_TENSORFLOW_SAYS = {errno.ENOTDIR: ("is not a directory",)}
_PATH = re.compile(r"((?:/|\w+://)[^\s;:,'\"]+)")


def line_of(error: BaseException) -> str | None:
    """The line for an expected error; None = a mistake of the program."""
    if isinstance(error, UserError):
        return str(error)
    for rule in (_of_system, _of_tensorflow, _of_content, _of_memory):
        line = rule(error)
        if line:
            return " ".join(line.split())
    return None


def file_of(error: BaseException) -> str:
    """The file that an error is about, as far as it is known; or ""."""
    if isinstance(error, OSError) and error.filename is not None:
        return files.final_name(os.fsdecode(error.filename))
    names = [
        note.removeprefix(files.NOTE)
        for note in getattr(error, "__notes__", ())
        if note.startswith(files.NOTE)
    ]
    return names[0] if names else ""


def _of_system(error: BaseException) -> str | None:
    if not isinstance(error, OSError) or error.errno not in SYSTEM:
        return None
    if _NO_TEMPORARY in str(error):
        _, _, tried = str(error).partition(_NO_TEMPORARY)
        return (
            "wanted a folder that temporary files can be written to, found "
            f"none in{tried}: free some space, or set TMPDIR to such a folder"
        )
    what, fix = SYSTEM[error.errno]
    if error.errno in (errno.EEXIST, errno.ENOENT):
        if link := _dangling(file_of(error)):
            what, fix = _DANGLING
            return f"{link}: {what}; {fix}"
    return f"{_named(error)}: {what}; {fix}"


def _dangling(path: str) -> str:
    """The link to nothing that a path is or lies below, or ""."""
    while path != os.path.dirname(path):
        if os.path.islink(path):
            return "" if os.path.exists(path) else path
        path = os.path.dirname(path)
    return ""


def _of_tensorflow(error: BaseException) -> str | None:
    """Files that TensorFlow could not read or write."""
    kind = type(error)
    if kind.__module__ != _TENSORFLOW:
        return None
    # Its place in the graph looks like a path.
    message = _PLACE.sub("", str(getattr(error, "message", error)))
    for number, (what, fix) in SYSTEM.items():
        words = (os.strerror(number), *_TENSORFLOW_SAYS.get(number, ()))
        if any(w in message for w in words):
            return f"{_path_in(error, message)}: {what}; {fix}"
    if kind.__name__ == "ResourceExhaustedError":
        return f"out of memory: take a smaller batch ({message[:120]})"
    about_files = kind.__name__ in _OF_FILES and _CHECKPOINT.search(message)
    if kind.__name__ == "DataLossError" or about_files:
        named = _path_in(error, message)
        return f"{named} {_DAMAGED} ({message[:120]}); {_COPY}"
    return None


def _of_content(error: BaseException) -> str | None:
    """Files that hold something else than they should."""
    kind = type(error)
    named, name = _named(error), f"{kind.__module__}.{kind.__name__}"
    if name == "json.decoder.JSONDecodeError":
        return f"{named} is not valid JSON: {error}; {_COPY}"
    if isinstance(error, RecursionError) and _raised_in(error, "json"):
        return f"{named}: its JSON is nested too deeply; {_COPY}"
    if isinstance(error, UnicodeDecodeError):
        return f"{named} is not UTF-8 ({error}); convert or {_COPY}"
    archive = name in (
        "zlib.error",
        "_lzma.LZMAError",
        "zipfile.BadZipFile",
        "gzip.BadGzipFile",
    )
    if archive or (isinstance(error, EOFError) and _in_archive(error)):
        return f"{named} {_DAMAGED} ({error}); {_COPY}"
    if name.endswith("SafetensorError"):  # in Rust's words
        number = re.search(r"os error (\d+)", str(error))
        what, fix = SYSTEM.get(int(number[1]) if number else 0, ("", ""))
        if what:
            return f"{named}: {what}; {fix}"
        return f"{named} {_DAMAGED} ({error}); {_COPY}"
    if name == "google.protobuf.message.DecodeError":
        return f"{named} {_DAMAGED} ({error}); {_COPY}"
    return None


def _of_memory(error: BaseException) -> str | None:
    if isinstance(error, MemoryError):
        return "out of memory: take a smaller batch, or fewer workers"
    return None


def _named(error: BaseException) -> str:
    return file_of(error) or "an input or output file"


def _path_in(error: BaseException, message: str) -> str:
    """The file in a message of TensorFlow, under the name users know."""
    path = _PATH.search(message)
    return file_of(error) or (
        files.final_name(path[1]) if path else "a checkpoint's file"
    )


def _last_files(error: BaseException) -> list[str]:
    frames = traceback.extract_tb(error.__traceback__)
    return [frame.filename for frame in frames[-3:]]


def _raised_in(error: BaseException, folder: str) -> bool:
    """Whether the innermost frames are of a package of the library."""
    return any(
        os.path.basename(os.path.dirname(name)) == folder
        for name in _last_files(error)
    )


def _in_archive(error: BaseException) -> bool:
    return any(
        os.path.basename(name) in _ARCHIVES for name in _last_files(error)
    ) or bool(file_of(error))
