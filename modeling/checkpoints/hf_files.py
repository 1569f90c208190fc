"""The files of a Hugging Face folder's tensors: one, or shards with an index.

Pickled weights (`pytorch_model.bin`) are never opened: loading one runs
whatever its author put into it.
"""

import os

import numpy as np

from common import files
from common.errors import UserError

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
_PICKLED = ("pytorch_model.bin", "pytorch_model.bin.index.json")
_CONVERSION = (
    'where torch and transformers are installed: python -c "from transformers '
    "import AutoModel; AutoModel.from_pretrained('{folder}').save_pretrained"
    "('{folder}', safe_serialization=True)\""
)


def holds_weights(folder: str) -> bool:
    """Whether a local or remote folder has tensors in a form that is read."""
    return any(_has(folder, name) for name in (WEIGHTS, INDEX))


def refuse_pickles(folder: str) -> None:
    """Says how to convert pickled weights, where a folder has such.

    Raises:
      UserError: it has.
    """
    if any(_has(folder, name) for name in _PICKLED):
        raise UserError(
            f"{folder}: wanted {WEIGHTS}, found {_PICKLED[0]}, which is a "
            "pickle and could run any code; convert it "
            + _CONVERSION.format(folder=folder)
        )


def load_tensors(folder: str) -> tuple[dict[str, np.ndarray], str]:
    """Every tensor by its name in the file, and the path for messages.

    Raises:
      UserError: a file is missing or unreadable, or shards and index do not
        agree.
    """
    path = os.path.join(folder, WEIGHTS)
    index = os.path.join(folder, INDEX)
    if files.exists(path) or not files.exists(index):
        return load_file(path), path
    places = _places(index)
    tensors: dict[str, np.ndarray] = {}
    for name in sorted(set(places.values())):
        for key, value in load_file(os.path.join(folder, name)).items():
            if places.get(key) != name:
                raise UserError(
                    f"{index}: wanted `{key}` in {places.get(key)}, found it "
                    f"in {name}; get the folder anew"
                )
            tensors[key] = value
    missing = sorted(set(places) - set(tensors))
    if missing:
        raise UserError(
            f"{index}: `{missing[0]}` is not in {places[missing[0]]} "
            f"({len(missing)} tensors are missing); get the folder anew"
        )
    return tensors, index


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


def load_file(path: str) -> dict[str, np.ndarray]:
    """Every tensor of one safetensors file.

    Raises:
      UserError: it is missing or unreadable.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load_file as load

    try:
        return load(path)
    except (SafetensorError, OSError) as e:
        raise UserError(f"{path} is no readable safetensors file: {e}") from e


def _has(folder: str, name: str) -> bool:
    return files.exists(os.path.join(folder, name))
