"""Tensors of a PyTorch `state_dict` file, without PyTorch.

`torch.save` writes a pickle, and a pickle can call any function. This reader
knows the few names that tensors need, gives them functions of its own that
only note what they were told, and refuses every other name: nothing of the
file is ever run. Both layouts are read: the zip archive (PyTorch 1.6 and
later) and the older stream of pickles with the numbers behind them.
"""

import collections
import io
import math
import pickle
import struct
import zipfile
from typing import Any, NamedTuple

import numpy as np

from common import files
from common.errors import UserError

_MAGIC = 0x1950A86A20F9469CFC6C  # of the older layout
_PROTOCOL = 1001
_HOW = (
    "where torch is installed: python -c \"import torch; m = torch.load('{path}'"
    ", map_location='cpu', weights_only=False); torch.save(m.state_dict(), "
    "'{path}.state_dict.pt')\", if you trust the file"
)
_LONGEST = 1 << 40  # elements; more is a damaged file


class _Storage(NamedTuple):
    """The type of a storage: its numbers' NumPy type in files."""

    dtype: str


_STORAGES = {
    "FloatStorage": _Storage("<f4"),
    "DoubleStorage": _Storage("<f8"),
    "HalfStorage": _Storage("<f2"),
    "BFloat16Storage": _Storage("bfloat16"),
    "LongStorage": _Storage("<i8"),
    "IntStorage": _Storage("<i4"),
    "ShortStorage": _Storage("<i2"),
    "CharStorage": _Storage("i1"),
    "ByteStorage": _Storage("u1"),
    "BoolStorage": _Storage("?"),
}


class _Part(NamedTuple):
    """A storage in the file."""

    storage: _Storage
    key: str
    size: int


class _Tensor(NamedTuple):
    """A view of a storage; lengths in elements."""

    part: _Part
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class _Refused(Exception):
    """What is wrong with a file, for its `UserError`."""


def load_state_dict(path: str) -> dict[str, np.ndarray]:
    """Every tensor of a file by name; half precision stays, bfloat16 does not.

    Args:
      path: written by `torch.save(model.state_dict(), path)`, or safetensors.

    Raises:
      UserError: unreadable, damaged, no `state_dict`, or it names anything
        that is no tensor.
    """
    if path.endswith(".safetensors"):
        from modeling.checkpoints import hf_files

        return hf_files.load_file(path)
    data = _read(path)
    try:
        stored, storages = _open(data)
        return _arrays(stored, storages)
    except _Refused as e:
        raise UserError(f"{path}: {e}".replace("{path}", path)) from e
    # The unpickler raises whatever a damaged stream leads it to.
    except (
        pickle.UnpicklingError,
        zipfile.BadZipFile,
        ArithmeticError,
        AttributeError,
        EOFError,
        LookupError,
        MemoryError,
        NotImplementedError,
        RecursionError,
        TypeError,
        ValueError,
        struct.error,
    ) as e:
        what = str(e).split("\n")[0] or type(e).__name__
        raise UserError(
            f"{path} is damaged or no file of torch.save ({what})"
        ) from e


def _read(path: str) -> bytes:
    try:
        return files.read_bytes(path)
    except FileNotFoundError:
        raise UserError(f"{path} does not exist") from None


def _open(data: bytes) -> tuple[Any, Any]:
    """(what was saved, `storage key, bytes wanted` -> bytes)."""
    if data[:4] == b"PK\x03\x04":
        return _open_zip(data)
    stream = io.BytesIO(data)
    reader = _Unpickler(stream)
    if reader.load() != _MAGIC or _Unpickler(stream).load() != _PROTOCOL:
        raise _Refused("wanted a file of torch.save, found another pickle")
    if not _Unpickler(stream).load().get("little_endian"):
        raise _Refused("its numbers are big-endian: save it again")
    reader = _Unpickler(stream)
    stored = reader.load()
    keys = _Unpickler(stream).load()
    places = {}
    for key in keys:
        part = reader.parts[key]
        (size,) = struct.unpack("<q", stream.read(8))
        length = size * _width(part.storage)
        places[key] = stream.read(length)
        if size != part.size or len(places[key]) != length:
            raise _Refused(f"it ends before the numbers of storage {key}")
    return stored, places


def _open_zip(data: bytes) -> tuple[Any, Any]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = archive.namelist()
        found = [n for n in names if n.split("/")[1:] == ["data.pkl"]]
        if len(found) != 1:
            raise _Refused("wanted an archive of torch.save with one data.pkl")
        root = found[0].split("/")[0]
        order = f"{root}/byteorder"
        if order in names and archive.read(order) != b"little":
            raise _Refused("its numbers are big-endian: save it again")
        reader = _Unpickler(io.BytesIO(archive.read(found[0])))
        stored = reader.load()
        return stored, {
            key: _stored(archive, f"{root}/data/{key}") for key in reader.parts
        }


def _stored(archive: zipfile.ZipFile, name: str) -> bytes:
    """An entry that is as long in the file as outside of it."""
    if archive.getinfo(name).compress_type != zipfile.ZIP_STORED:
        raise _Refused(
            f"its entry {name} is compressed, as torch.save never does"
        )
    return archive.read(name)


class _Unpickler(pickle.Unpickler):
    """Knows tensors; every other name is refused before it means anything."""

    def __init__(self, stream):
        super().__init__(stream, encoding="utf-8")
        self.parts: dict[str, _Part] = {}

    def find_class(self, module, name):
        if (module, name) == ("collections", "OrderedDict"):
            return _Entries
        if module == "torch" and name in _STORAGES:
            return _STORAGES[name]
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _tensor
        if (module, name) == ("torch._utils", "_rebuild_parameter"):
            return _parameter
        raise _Refused(
            f"it names {module}.{name}, which is no tensor and could run code; "
            f"wanted a state_dict: {_HOW}"
        )

    def persistent_load(self, pid):
        kind, storage, key, _, size, *view = pid
        known = isinstance(storage, _Storage) and kind == "storage"
        sizes = isinstance(size, int) and 0 <= size < _LONGEST
        if not known or not sizes or not isinstance(key, str) or any(view):
            raise _Refused("it refers to numbers in an unknown way")
        return self.parts.setdefault(key, _Part(storage, key, size))


class _Entries(collections.OrderedDict):
    """A dictionary that takes no attributes (`_metadata`) from the file."""

    def __init__(self):
        super().__init__()

    def __setstate__(self, state):
        del state


def _tensor(part, offset, shape, strides, *rest) -> _Tensor:
    """In the place of `torch._utils._rebuild_tensor_v2`."""
    del rest  # requires_grad, hooks
    lengths = (offset, *shape, *strides)
    if (
        not isinstance(part, _Part)
        or len(shape) != len(strides)
        or any(not isinstance(n, int) or n < 0 for n in lengths)
    ):
        raise _Refused("a tensor's shape is no shape")
    return _Tensor(part, offset, tuple(shape), tuple(strides))


def _parameter(data, *rest) -> _Tensor:
    """In the place of `torch._utils._rebuild_parameter`."""
    del rest  # requires_grad, hooks
    return data


def _width(storage: _Storage) -> int:
    """Bytes of a number."""
    if storage.dtype == "bfloat16":
        return 2
    return np.dtype(storage.dtype).itemsize


def _arrays(stored, storages) -> dict[str, np.ndarray]:
    """The arrays of a dictionary of tensors."""
    if not isinstance(stored, dict) or not stored:
        raise _Refused(
            f"wanted a state_dict, found {type(stored).__name__}: {_HOW}"
        )
    found = {}
    for name, value in stored.items():
        if not isinstance(name, str) or not isinstance(value, _Tensor):
            raise _Refused(
                f"wanted a state_dict of tensors, found "
                f"{type(value).__name__} as {str(name)[:40]!r}: {_HOW}"
            )
        found[name] = _array(name, value, storages[value.part.key])
    return found


def _array(name: str, tensor: _Tensor, data: bytes) -> np.ndarray:
    """A tensor's own copy, in the order of its shape."""
    part, shape = tensor.part, tensor.shape
    last = tensor.offset + sum(
        (n - 1) * s for n, s in zip(shape, tensor.strides, strict=True)
    )
    width = _width(part.storage)
    if math.prod(shape) and (
        last >= part.size or len(data) < width * part.size
    ):
        raise _Refused(f"`{name}` lies outside of its storage")
    if math.prod(shape) > part.size:
        raise _Refused(f"`{name}` repeats numbers of its storage")
    dtype = part.storage.dtype
    if dtype == "bfloat16":
        whole = np.frombuffer(data, "<u2").astype(np.uint32) << 16
        whole = whole.view(np.float32)
    else:
        whole = np.frombuffer(data, dtype)
    if not math.prod(shape):
        return np.zeros(shape, whole.dtype)
    strides = [s * whole.itemsize for s in tensor.strides]
    view = np.lib.stride_tricks.as_strided(
        whole[tensor.offset :], shape, strides, writeable=False
    )
    return np.array(view, order="C")
