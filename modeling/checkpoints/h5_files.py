"""`tf_model.h5` of a Hugging Face folder: Keras weights by PyTorch's names.

A weight lies at `LAYER/MODEL/PATH:0`. The parts of `PATH` are those of the
PyTorch name, with these differences: `layer_._3` is `layer.3`, `mlm___cls` is
`cls`, the last part has Keras' word, and dense kernels are transposed.

HDF5 files can point to other files and can hold little that unpacks to much.
Only plain numbers that lie in the file itself are read.
"""

import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from common.errors import UserError

# Keras' word for a weight -> PyTorch's.
_WORDS = {
    "kernel": "weight",
    "gamma": "weight",
    "embeddings": "weight",
    "beta": "bias",
}
# Groups within groups, and all objects: the library takes long to open them.
_DEEPEST, _MOST = 50, 10_000
_KINDS = ("<f4", "<f2", "<f8")


def load(path: str) -> dict[str, np.ndarray]:
    """Every tensor of a file, by its PyTorch name and in its shape.

    Raises UserError: missing, unreadable, or not stored as plain numbers.
    """
    import h5py

    tensors: dict[str, np.ndarray] = {}
    room = os.path.getsize(path) if os.path.exists(path) else 0

    def visit(name: str, item) -> None:
        nonlocal room
        _require_plain(path, name, item)
        room -= item.nbytes
        if room < 0:
            raise UserError(f"{path}: `{name}` is longer than the file")
        ours, flip = _name(name)
        if ours in tensors:
            raise UserError(f"{path} holds `{ours}` twice")
        value = item[()]
        tensors[ours] = value.T if flip else value

    try:
        with h5py.File(path, "r") as f:
            for name, item in _datasets(path, f):
                visit(name, item)
    # The library raises what a damaged file leads it to.
    except (OSError, RuntimeError, ValueError, TypeError, KeyError) as e:
        what = str(e).split("\n")[0]
        raise UserError(f"{path} is not a readable HDF5 file: {what}") from e
    if not tensors:
        raise UserError(f"{path}: wanted Keras weights, found none")
    return tensors


def _datasets(path: str, file) -> Iterator[tuple[str, Any]]:
    """(path in the file, dataset) of all; no link is followed."""
    import h5py

    waiting, seen = [("", file)], set()
    while waiting:
        path_of_group, group = waiting.pop()
        if path_of_group.count("/") > _DEEPEST:
            raise UserError(f"{path}: groups lie more than {_DEEPEST} deep")
        for name in group:
            item = group.get(name, getlink=True)
            if not isinstance(item, h5py.HardLink):
                continue
            item = group[name]
            number = h5py.h5o.get_info(item.id).addr
            if number in seen:
                continue
            seen.add(number)
            if len(seen) > _MOST:
                raise UserError(f"{path} holds more than {_MOST} objects")
            if isinstance(item, h5py.Group):
                waiting.append((f"{path_of_group}{name}/", item))
            elif isinstance(item, h5py.Dataset):
                yield path_of_group + name, item


def _require_plain(path: str, name: str, item) -> None:
    """Numbers that stand in the file, unpacked, in the order of their shape."""
    plain = (
        item.dtype.str in _KINDS
        and item.chunks is None
        and item.external is None
        and not item.is_virtual
        and item.shape is not None
    )
    if not plain:
        raise UserError(
            f"{path}: wanted plain numbers as Keras stores weights, found "
            f"`{name}` of {item.dtype}, stored in another way; take "
            "model.safetensors or pytorch_model.bin of this model"
        )


def _name(path: str) -> tuple[str, bool]:
    """(PyTorch's name, is it transposed) of `LAYER/MODEL/PATH:0`."""
    parts = path.removesuffix(":0").split("/")[2:] or path.split("/")
    parts = [part.rpartition("___")[2] for part in parts]
    last = parts[-1]
    name = ".".join([*parts[:-1], _WORDS.get(last, last)])
    return name.replace("_._", "."), last == "kernel"
