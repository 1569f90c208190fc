"""The original's checkpoints: its names, stacked biases, optimizer slots.

A TF1 checkpoint is a prefix (`xlnet_model.ckpt`) of an `.index` and `.data`
files. The original stacks what ours keeps per layer: `seg_embed` [L, 2, N, H]
and, with `untie_r`, the three biases [L, N, H]. It puts the task's name into
the scope of a classifier (`model/classification_mnli`); ours has none.
"""

import os
import re
import uuid

import numpy as np
import tensorflow as tf

from common.errors import UserError
from modeling.checkpoints.native import open_reader, read_tensor

SCOPE = "model/transformer/"
_BIASES = ("r_w_bias", "r_r_bias", "r_s_bias")
_SLOT = re.compile(r"/(adam_m|adam_v|Adam|Adam_1)$")
_COUNTERS = ("global_step", "beta1_power", "beta2_power")
_TASK = re.compile(r"^model/(classification|regression)_([^/]+)/logit/")
_PER_LAYER = re.compile(
    re.escape(SCOPE) + r"layer_(\d+)/rel_attn/(seg_embed|r_[wrs]_bias)$"
)


def read(
    prefix: str, untie_r: bool = True
) -> tuple[dict[str, np.ndarray], list[str], dict[str, str]]:
    """Reads the weights of a TF1 checkpoint by canonical name.

    Args:
      prefix: of the checkpoint.
      untie_r: whether biases are per layer, as the config says.

    Returns:
      (arrays, stripped, tasks): canonical name -> array; the names of
      optimizer slots and counters left out; "classification" or "regression"
      -> the task name of its scope.

    Raises:
      UserError: unreadable, stacked where it should not be, or with the heads
        of several tasks of a kind.
    """
    reader = open_reader(prefix)
    names = sorted(reader.get_variable_to_shape_map())
    stripped = [n for n in names if _SLOT.search(n) or n in _COUNTERS]
    kept = [n for n in names if n not in stripped]
    tasks = _tasks(kept, prefix)
    arrays = {}
    for name in kept:
        match = _TASK.match(name)
        key = name
        if match is not None:
            key = name.replace(f"_{match.group(2)}/", "/", 1)
        arrays[key] = read_tensor(reader, name, prefix)
    return unstack(arrays, untie_r, prefix), stripped, tasks


def _tasks(names, prefix):
    tasks = {}
    for name in names:
        match = _TASK.match(name)
        if match is None:
            continue
        kind, task = match.groups()
        if tasks.setdefault(kind, task) != task:
            raise UserError(
                f"{prefix} holds the {kind} heads of two tasks, "
                f"{tasks[kind]!r} and {task!r}: keep one"
            )
    return tasks


def unstack(
    arrays: dict[str, np.ndarray], untie_r: bool, source: str
) -> dict[str, np.ndarray]:
    """The original's arrays -> one array per layer."""
    found = {}
    for name, value in arrays.items():
        short = name.removeprefix(SCOPE)
        bias = name.startswith(SCOPE) and short in _BIASES
        stacked = name == SCOPE + "seg_embed" or (bias and untie_r)
        wanted = (4 if short == "seg_embed" else 3) if stacked else 2
        if (stacked or bias) and value.ndim != wanted:
            raise UserError(
                f"{source}: `{name}` has shape {list(value.shape)}, wanted "
                f"{wanted} axes; is `untie_r` of the config right?"
            )
        if not stacked:
            found[name] = value
            continue
        for i, part in enumerate(value):
            found[f"{SCOPE}layer_{i}/rel_attn/{short}"] = part
    return found


def stack(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """One array per layer -> the original's arrays."""
    found, stacks = {}, {}
    for name, value in arrays.items():
        match = _PER_LAYER.match(name)
        if match is None:
            found[name] = value
        else:
            layers = stacks.setdefault(match.group(2), {})
            layers[int(match.group(1))] = value
    for short, layers in stacks.items():
        found[SCOPE + short] = np.stack([layers[i] for i in sorted(layers)])
    return found


def write(
    prefix: str, arrays: dict[str, np.ndarray], tasks: dict[str, str]
) -> None:
    """Writes canonical arrays as a TF1 checkpoint, complete or not at all.

    Args:
      prefix: of the checkpoint; its folder is made.
      arrays: canonical name -> array.
      tasks: "classification" or "regression" -> task name for the scope.
    """
    found = {}
    for name, value in stack(arrays).items():
        for kind, task in tasks.items():
            name = name.replace(f"model/{kind}/", f"model/{kind}_{task}/", 1)
        found[name] = value
    names = sorted(found)
    folder, base = os.path.split(prefix)
    if folder:
        tf.io.gfile.makedirs(folder)
    # Written under another prefix and renamed, the index last: without the
    # index there is no checkpoint.
    temporary = os.path.join(folder, f".{base}.tmp-{uuid.uuid4().hex[:8]}")
    try:
        tf.raw_ops.SaveV2(
            prefix=temporary,
            tensor_names=names,
            shape_and_slices=[""] * len(names),
            tensors=[tf.constant(found[name]) for name in names],
        )
        written = tf.io.gfile.glob(temporary + "*")
        for path in sorted(written, key=lambda p: p.endswith(".index")):
            tf.io.gfile.rename(
                path, prefix + path[len(temporary) :], overwrite=True
            )
    finally:
        for path in tf.io.gfile.glob(temporary + "*"):
            tf.io.gfile.remove(path)
