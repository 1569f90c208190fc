"""Tensors of a PyTorch `state_dict` file, without PyTorch.

`torch.save` writes a pickle, and a pickle can call any function. This reader
knows the few names that tensors need, gives them functions of its own that
only note what they were told, and refuses every other name: nothing of the
file is ever run. Both layouts are read: the zip archive (PyTorch 1.6 and
later) and the older stream of pickles with the numbers behind them.

Python's own unpickler is not used: it takes memory that a file of a few bytes
asks for. Here time and memory are bounded by the size of the file.
"""

import io
import math
import pickle
import pickletools
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
_STEPS = 1 << 22  # of a pickle; a tensor takes about thirty
_DIMENSIONS = 64  # NumPy has no more


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

    Of `torch.save(model.state_dict(), path)`. Raises UserError: unreadable,
    damaged, no `state_dict`, or it names anything that is no tensor.
    """
    try:
        data = files.read_bytes(path)
    except FileNotFoundError:
        raise UserError(f"{path} does not exist") from None
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


def _open(data: bytes) -> tuple[Any, Any]:
    """(what was saved, `storage key, bytes wanted` -> bytes)."""
    if data[:4] == b"PK\x03\x04":
        return _open_zip(data)
    stream = io.BytesIO(data)
    if _load(stream)[0] != _MAGIC or _load(stream)[0] != _PROTOCOL:
        raise _Refused("wanted a file of torch.save, found another pickle")
    if not _load(stream)[0].get("little_endian"):
        raise _Refused("its numbers are big-endian: save it again")
    stored, parts = _load(stream)
    places = {}
    for key in _load(stream)[0]:
        part = parts[_text(key)]
        (size,) = struct.unpack("<q", stream.read(8))
        length = size * _width(part.storage)
        places[key] = stream.read(length)
        if size != part.size or len(places[key]) != length:
            raise _Refused(f"it ends before the numbers of storage {key}")
    return stored, places


def _open_zip(data: bytes) -> tuple[Any, Any]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = archive.namelist()
        pickles = [n for n in names if n.split("/")[1:] == ["data.pkl"]]
        if len(pickles) != 1:
            raise _Refused("wanted an archive of torch.save with one data.pkl")
        root = pickles[0].split("/")[0]
        order = f"{root}/byteorder"
        if order in names and _stored(archive, order) != b"little":
            raise _Refused("its numbers are big-endian: save it again")
        stored, parts = _load(io.BytesIO(_stored(archive, pickles[0])))
        entries = [f"{root}/data/{key}" for key in parts]
        # Entries may lie upon each other.
        if sum(archive.getinfo(n).file_size for n in entries) > len(data):
            raise _Refused("its entries are longer than the file")
        return stored, {
            key: _stored(archive, name)
            for key, name in zip(parts, entries, strict=True)
        }


def _stored(archive: zipfile.ZipFile, name: str) -> bytes:
    """An entry that is as long in the file as outside of it."""
    if archive.getinfo(name).compress_type != zipfile.ZIP_STORED:
        raise _Refused(
            f"its entry {name} is compressed, as torch.save never does"
        )
    return archive.read(name)


# Operations of pickles that put down what stands beside them, or one value.
_ARGUMENTS = frozenset(
    """
    BININT BININT1 BININT2 BINSTRING BINUNICODE INT LONG LONG1 SHORT_BINSTRING
    SHORT_BINUNICODE UNICODE
    """.split()
)
_VALUES = {
    "EMPTY_DICT": dict,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
    "NEWFALSE": lambda: False,
    "NEWTRUE": lambda: True,
    "NONE": lambda: None,
    "MARK": lambda: _MARK,
}
_MARK = object()
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


def _load(stream) -> tuple[Any, dict[str, _Part]]:
    """(the value of the next pickle, its storages by key)."""
    stack: list[Any] = []
    memo: dict[int, Any] = {}
    parts: dict[str, _Part] = {}
    for step, (code, argument, _) in enumerate(pickletools.genops(stream)):
        name = code.name
        if step > _STEPS:
            raise _Refused(f"its pickle has more than {_STEPS} operations")
        if name in _ARGUMENTS:
            stack.append(argument)
        elif name in _VALUES:
            stack.append(_VALUES[name]())
        elif name in _TUPLES:
            stack[-_TUPLES[name] :] = [tuple(stack[-_TUPLES[name] :])]
        elif name == "TUPLE":
            stack.append(tuple(_above_mark(stack)))
        elif name in ("BINPUT", "LONG_BINPUT", "PUT", "MEMOIZE"):
            memo[len(memo) if argument is None else argument] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET", "GET"):
            stack.append(memo[argument])
        elif name == "GLOBAL":
            stack.append(_named(*argument.split(" ", 1)))
        elif name == "STACK_GLOBAL":
            stack[-2:] = [_named(*map(_text, stack[-2:]))]
        elif name == "BINPERSID":
            part = _part(stack.pop())
            stack.append(parts.setdefault(part.key, part))
        elif name == "REDUCE":
            arguments = stack.pop()
            stack.append(_call(stack.pop(), arguments))
        elif name in ("SETITEM", "SETITEMS"):
            items = _above_mark(stack) if name[-1] == "S" else _last(stack, 2)
            for key, value in zip(items[::2], items[1::2], strict=True):
                stack[-1][_text(key)] = value
        elif name in ("APPEND", "APPENDS"):
            items = _above_mark(stack) if name[-1] == "S" else _last(stack, 1)
            stack[-1].extend(items)
        elif name == "BUILD":
            stack.pop()  # attributes: `_metadata`
        elif name == "STOP":
            return stack.pop(), parts
        elif name not in ("PROTO", "FRAME"):
            raise _Refused(f"its pickle has {name}, which no state_dict needs")
    raise EOFError("the pickle has no end")


def _above_mark(stack: list) -> list:
    """Takes what lies above the last mark, and the mark."""
    items = []
    while (value := stack.pop()) is not _MARK:
        items.append(value)
    return items[::-1]


def _last(stack: list, count: int) -> list:
    items = stack[-count:]
    del stack[-count:]
    return items


def _text(value) -> str:
    if not isinstance(value, str):
        raise _Refused(f"wanted a name, found {type(value).__name__}")
    return value


def _named(module: str, name: str) -> Any:
    """What a known name stands for; every other one is refused."""
    if module == "torch" and name in _STORAGES:
        return _STORAGES[name]
    if (module, name) in _FUNCTIONS:
        return _FUNCTIONS[module, name]
    raise _Refused(
        f"it names {module}.{name}, which is not a tensor and could run code; "
        f"wanted a state_dict: {_HOW}"
    )


def _call(function, arguments) -> Any:
    known = any(function is f for f in _FUNCTIONS.values())
    if not known or not isinstance(arguments, tuple):
        raise _Refused("it calls something that is not a function")
    return function(*arguments)


def _part(pid) -> _Part:
    """A storage, from how a pickle refers to it."""
    kind, storage, key, _, size, *view = pid
    known = isinstance(storage, _Storage) and kind == "storage"
    sizes = isinstance(size, int) and 0 <= size < _LONGEST
    if not known or not sizes or not isinstance(key, str) or any(view):
        raise _Refused("it refers to numbers in an unknown way")
    return _Part(storage, key, size)


def _tensor(part, offset, shape, strides, *rest) -> _Tensor:
    """In the place of `torch._utils._rebuild_tensor_v2`."""
    del rest  # requires_grad, hooks
    if len(shape) > _DIMENSIONS or len(shape) != len(strides):
        raise _Refused("a tensor's shape is not one")
    lengths = (offset, *shape, *strides)
    if not isinstance(part, _Part) or any(
        not isinstance(n, int) or n < 0 for n in lengths
    ):
        raise _Refused("a tensor's shape is not one")
    return _Tensor(part, offset, tuple(shape), tuple(strides))


def _parameter(data, *rest) -> _Tensor:
    """In the place of `torch._utils._rebuild_parameter`."""
    del rest  # requires_grad, hooks
    return data


_FUNCTIONS = {
    ("collections", "OrderedDict"): lambda: {},
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
    ("torch._utils", "_rebuild_parameter"): _parameter,
}


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
    arrays: dict[str, np.ndarray] = {}
    views: dict[_Tensor, np.ndarray] = {}  # what is shared has several names
    room = 2 * sum(map(len, storages.values()))
    for name, value in stored.items():
        if not isinstance(value, _Tensor):
            raise _Refused(
                f"wanted a state_dict of tensors, found "
                f"{type(value).__name__} as {str(name)[:40]!r}: {_HOW}"
            )
        if value not in views:
            room -= math.prod(value.shape) * _width(value.part.storage)
            if room < 0:
                raise _Refused(f"`{name}` repeats numbers of other tensors")
            views[value] = _array(name, value, storages[value.part.key])
        arrays[name] = views[value]
    return arrays


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
    bits = dtype == "bfloat16"
    whole = np.frombuffer(data, "<u2" if bits else dtype)
    if not math.prod(shape):
        return np.zeros(shape, np.float32 if bits else whole.dtype)
    strides = [s * whole.itemsize for s in tensor.strides]
    view = np.lib.stride_tricks.as_strided(
        whole[tensor.offset :], shape, strides, writeable=False
    )
    if not bits:
        return np.array(view, order="C")
    wide = np.array(view, np.uint32, order="C") << np.uint32(16)
    return np.asarray(wide).view(np.float32)
