"""Features kept under a hash of everything that they depend on.

The key is a JSON object (format version, task options, hashes of the data and
of the SentencePiece file). Its hash names the file and the object itself is
stored inside, so a stale or foreign file is never read: the peers' caches are
named by length and vocabulary only and are reused silently for other data.
"""

import contextlib
import hashlib
import io
import json
import os
import zipfile
from collections.abc import Callable, Iterable

import numpy as np

from common import files, locks

FORMAT_VERSION = 2  # 1: blank texts kept their SEP
KEY = "__key__"


def hash_texts(parts: Iterable[object]) -> str:
    """SHA-256 over the JSON of each part, in order."""
    digest = hashlib.sha256()
    for part in parts:
        data = json.dumps(part, ensure_ascii=True).encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def key_text(key: dict) -> str:
    """The key as canonical JSON, with the format version."""
    return json.dumps(key | {"format_version": FORMAT_VERSION}, sort_keys=True)


def cache_path(cache_dir: str, name: str, key: dict) -> str:
    """`<cache_dir>/<name>-<hash>.npz`."""
    digest = hashlib.sha256(key_text(key).encode()).hexdigest()[:24]
    return os.path.join(cache_dir, f"{name}-{digest}.npz")


def load(path: str, key: dict) -> dict[str, np.ndarray] | None:
    """Arrays of a cache file; None when it is not there or not of this key."""
    if not files.exists(path):
        return None
    # A damaged file is made again, whatever its reader raises.
    with contextlib.suppress(Exception):
        size, source = files.size(path), path
        if files.is_remote(path):
            source = io.BytesIO(files.read_bytes(path))
        # What `save` writes is not packed: little stays little.
        with zipfile.ZipFile(source) as archive:
            rows = archive.infolist()
            if any(row.compress_type != zipfile.ZIP_STORED for row in rows):
                return None
            if sum(row.file_size for row in rows) > size:
                return None
        with np.load(source, allow_pickle=False) as archive:
            if archive[KEY].tobytes() != key_text(key).encode():
                return None
            return {
                name: archive[name] for name in archive.files if name != KEY
            }
    return None


def save(path: str, key: dict, arrays: dict[str, np.ndarray]) -> None:
    """Writes arrays and key, atomically."""
    stamp = np.frombuffer(key_text(key).encode(), np.uint8)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays, **{KEY: stamp})
    with files.atomic_open(path) as f:
        # A remote file takes bytes alone.
        remote = files.is_remote(path)
        f.write(buffer.getvalue() if remote else buffer.getbuffer())


def cached(
    cache_dir: str,
    name: str,
    key: dict,
    build: Callable[[], dict[str, np.ndarray]],
) -> tuple[dict[str, np.ndarray], bool]:
    """(arrays, whether they came from the cache); "" as folder = no cache."""
    if not cache_dir:
        return build(), False
    path = cache_path(cache_dir, name, key)
    arrays = load(path, key)
    if arrays is not None:
        return arrays, True
    # Another run may be making them at this moment.
    with locks.held(path, is_folder=False, wait=True):
        arrays = load(path, key)
        if arrays is not None:
            return arrays, True
        arrays = build()
        save(path, key, arrays)
    return arrays, False
