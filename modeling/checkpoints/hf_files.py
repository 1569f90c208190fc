"""The tensors of a Hugging Face folder, in whatever form they lie there.

Forms in order of preference: safetensors, PyTorch's `state_dict` (read by
`torch_files`, which runs nothing of the file), HDF5 of the TensorFlow classes;
the first two in one file or in shards with an index.
"""

import os
from collections.abc import Callable

import numpy as np

from common import files
from common.errors import UserError
from common.weights.released_weights import FORMS, H5, TORCH, WEIGHTS
from modeling.checkpoints import h5_files, torch_files

Tensors = dict[str, np.ndarray]
# Bytes of names in a safetensors file: some 40,000 tensors. The library's time
# grows with the square of their number.
_MAX_HEADER = 1 << 22


def form_of(folder: str) -> str | None:
    """The one of `FORMS` that a folder's weights begin at, or None."""
    return next(
        (n for n in FORMS if files.exists(os.path.join(folder, n))), None
    )


def weight_files(folder: str) -> list[str]:
    """Paths of the files that `load_tensors` reads the tensors from.

    Raises UserError: there is none, or the index is damaged.
    """
    form = form_of(folder) or WEIGHTS
    path = os.path.join(folder, form)
    if not form.endswith(".json"):
        return [path]
    return [
        os.path.join(folder, n) for n in sorted(set(_places(path).values()))
    ]


def load_tensors(folder: str) -> tuple[Tensors, str]:
    """Every tensor by its PyTorch name, and the path for messages.

    Raises UserError: a file is missing or unreadable, or shards and index do
    not agree.
    """
    form = form_of(folder) or WEIGHTS
    path = os.path.join(folder, form)
    if not form.endswith(".json"):
        return load_file(path), path
    places = _places(path)
    tensors: Tensors = {}
    for name in sorted(set(places.values())):
        for key, value in load_file(os.path.join(folder, name)).items():
            if places.get(key) != name:
                raise UserError(
                    f"{path}: wanted `{key}` in {places.get(key)}, found it "
                    f"in {name}; get the folder again"
                )
            tensors[key] = value
    missing = sorted(set(places) - set(tensors))
    if missing:
        raise UserError(
            f"{path}: `{missing[0]}` is not in {places[missing[0]]} "
            f"({len(missing)} tensors are missing); get the folder again"
        )
    return tensors, path


def _places(index: str) -> dict[str, str]:
    """Tensor -> file of its shard, which lies in the folder itself."""
    places = files.read_json_object(index, "wanted the index of shards").get(
        "weight_map"
    )
    wanted = f"{index}: wanted an object `weight_map` of file names"
    if not isinstance(places, dict) or not places:
        raise UserError(f"{wanted}, found {type(places).__name__}")
    for key, name in places.items():
        if not isinstance(name, str) or os.path.basename(name) != name:
            raise UserError(f"{wanted}, found {name!r} for `{key}`")
    return places


def load_file(path: str) -> Tensors:
    """Every tensor of one file; its ending says the form.

    Raises UserError: missing, unreadable, or it holds anything but tensors.
    """
    ending = os.path.splitext(path)[1]
    return _READERS.get(ending, torch_files.load_state_dict)(path)


def _load_safetensors(path: str) -> Tensors:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file as load

    try:
        with open(path, "rb") as f:
            size = int.from_bytes(f.read(8), "little")
        if os.path.getsize(path) > size > _MAX_HEADER:
            raise ValueError(
                f"wanted a header of at most {_MAX_HEADER} bytes, found {size}"
            )
        return load(path)
    # numpy has not all types and shapes of these files.
    except (SafetensorError, OSError, ValueError, AttributeError) as e:
        raise UserError(
            f"{path} is not a readable safetensors file: {e}"
        ) from e


_READERS: dict[str, Callable[[str], Tensors]] = {
    os.path.splitext(WEIGHTS)[1]: _load_safetensors,
    os.path.splitext(TORCH)[1]: torch_files.load_state_dict,
    os.path.splitext(H5)[1]: h5_files.load,
}
