"""A save that fails: one line, and nothing half-written."""

import contextlib
import errno
import os

import tensorflow as tf

from common import files
from common.errors import UserError
from modeling.checkpoints import folder as checkpoint_folder

# What a write meets with. TensorFlow calls a full disk `ResourceExhausted`, as
# it calls memory that is full.
_OF_DISKS = (
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EROFS,
    errno.EIO,
)


def of_disk(error: Exception) -> str:
    """The system's words of a disk that cannot be written; "" = another error."""
    text = str(error)
    return next((w for w in map(os.strerror, _OF_DISKS) if w in text), "")


def shorten(error: Exception) -> str:
    """The beginning of what an error says, without the place in a graph."""
    text = str(error).strip().splitlines()
    return text[0][:200] if text else type(error).__name__


def failed(
    path: str, before: str | None, error: Exception, remove: bool = True
) -> UserError:
    """What a save of the checkpoint `path` that failed ends with.

    Nothing half-written stays: whoever may, removes it. `before` is the prefix
    that the folder has until now.
    """
    for sign in "._" if remove else "":
        remove_all(path + sign)
    kept = f"{before} is intact" if before else "none was saved before"
    return UserError(
        f"saving {path} failed ({of_disk(error) or shorten(error)}); {kept}; "
        "free some space and start the same command again"
    )


def remove_unfinished(folder: str, base: str) -> None:
    """Deletes what a killed process left of the save it was making.

    What else is not whole stays: the user may put back what is missing. Of a
    checkpoint that became whole the temporary folder goes alone.
    """
    remove_all(os.path.join(folder, ".checkpoint.tmp-"))
    for name in checkpoint_folder.unfinished(folder, base):
        remove_all(os.path.join(folder, name) + ".")
    for path in files.beginning_with(os.path.join(folder, base + "-")):
        if path.endswith(checkpoint_folder.UNFINISHED):
            remove(path)


def remove_all(prefix: str) -> None:
    """Deletes files and folders whose path begins so."""
    for path in files.beginning_with(prefix):
        remove(path)


def remove(path: str) -> None:
    """Deletes a file or a folder that may be gone already."""
    with contextlib.suppress(tf.errors.OpError):
        if tf.io.gfile.isdir(path):
            tf.io.gfile.rmtree(path)
        else:
            tf.io.gfile.remove(path)
