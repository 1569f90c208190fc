"""Local and `tf.io.gfile` paths alike, with Python's own exceptions (L1)."""

import contextlib
import os
from collections.abc import Iterator

from common import files


@contextlib.contextmanager
def _as_os_errors() -> Iterator[None]:
    """TensorFlow's file errors become `OSError`s."""
    import tensorflow as tf

    try:
        yield
    except tf.errors.NotFoundError as e:
        raise FileNotFoundError(e.message) from e
    except tf.errors.OpError as e:
        raise OSError(e.message) from e


def read_bytes(path: str) -> bytes:
    """All bytes of a file.

    Raises:
      OSError: it cannot be read.
    """
    if not files.is_remote(path):
        with open(path, "rb") as f:
            return f.read()
    with _as_os_errors(), files.open_binary(path) as f:
        return f.read()


def size(path: str) -> int:
    """Bytes of a file as it lies there.

    Raises:
      OSError: there is none.
    """
    if not files.is_remote(path):
        return os.path.getsize(path)
    import tensorflow as tf

    with _as_os_errors():
        return tf.io.gfile.stat(path).length


def exists(path: str) -> bool:
    """Whether there is a file or folder."""
    if not files.is_remote(path):
        return os.path.exists(path)
    import tensorflow as tf

    return tf.io.gfile.exists(path)


def make_directory(path: str) -> None:
    """Makes a folder and the ones above it.

    Raises:
      OSError: it cannot be made.
    """
    if not files.is_remote(path):
        os.makedirs(path, exist_ok=True)
        return
    import tensorflow as tf

    with _as_os_errors():
        tf.io.gfile.makedirs(path)


def list_names(path: str) -> list[str]:
    """Names of what lies in a folder."""
    if not files.is_remote(path):
        return os.listdir(path)
    import tensorflow as tf

    with _as_os_errors():
        return [name.rstrip("/") for name in tf.io.gfile.listdir(path)]


def remove(path: str) -> None:
    """Removes a file."""
    if not files.is_remote(path):
        os.remove(path)
        return
    import tensorflow as tf

    with _as_os_errors():
        tf.io.gfile.remove(path)
