"""The original's checkpoints: its names, stacked biases, optimizer slots.

A TF1 checkpoint is a prefix (`xlnet_model.ckpt`) of an `.index` and `.data`
files. The original stacks what ours keeps per layer: `seg_embed` [L, 2, N, H]
and, with `untie_r`, the three biases [L, N, H].
"""

import os
import re
import uuid

import numpy as np
import tensorflow as tf

from common.errors import UserError

SCOPE = "model/transformer/"
_BIASES = ("r_w_bias", "r_r_bias", "r_s_bias")
_SLOT = re.compile(
    r"/(adam_m|adam_v|Adam|Adam_1|Momentum|ExponentialMovingAverage)$"
)
_COUNTERS = ("global_step", "beta1_power", "beta2_power")


def read(
    prefix: str, untie_r: bool = True
) -> tuple[dict[str, np.ndarray], list[str]]:
    """Reads the weights of a TF1 checkpoint by canonical name.

    Args:
      prefix: of the checkpoint.
      untie_r: whether biases are per layer, as the config says.

    Returns:
      (arrays, stripped): canonical name -> array, and the names of optimizer
      slots and counters left out.

    Raises:
      UserError: unreadable, or stacked where it should not be.
    """
    try:
        reader = tf.train.load_checkpoint(prefix)
    except Exception as e:  # TF raises several types for damaged files.
        raise UserError(f"{prefix} is no readable TF1 checkpoint: {e}") from e
    names = sorted(reader.get_variable_to_shape_map())
    kept = [n for n in names if not _SLOT.search(n) and n not in _COUNTERS]
    stripped = [n for n in names if n not in kept]
    arrays = {name: reader.get_tensor(name) for name in kept}
    return unstack(arrays, untie_r, prefix), stripped


def unstack(
    arrays: dict[str, np.ndarray], untie_r: bool, source: str
) -> dict[str, np.ndarray]:
    """The original's arrays -> one array per layer."""
    found = {}
    for name, value in arrays.items():
        short = name.removeprefix(SCOPE)
        per_layer = short == "seg_embed" or (untie_r and short in _BIASES)
        if not name.startswith(SCOPE) or not per_layer:
            if name.startswith(SCOPE) and short in _BIASES and value.ndim != 2:
                raise UserError(
                    f"{source}: `{name}` has shape {list(value.shape)}, wanted "
                    "[N, H] for a config with `untie_r` false; check the config"
                )
            found[name] = value
            continue
        wanted = 4 if short == "seg_embed" else 3
        if value.ndim != wanted:
            raise UserError(
                f"{source}: `{name}` has shape {list(value.shape)}, wanted "
                f"{wanted} axes, layers first; check `untie_r` of the config"
            )
        for i, part in enumerate(value):
            found[f"{SCOPE}layer_{i}/rel_attn/{short}"] = part
    return found


def stack(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """One array per layer -> the original's arrays."""
    pattern = re.compile(
        re.escape(SCOPE) + r"layer_(\d+)/rel_attn/(seg_embed|r_[wrs]_bias)$"
    )
    found, stacks = {}, {}
    for name, value in arrays.items():
        match = pattern.match(name)
        if match is None:
            found[name] = value
        else:
            layers = stacks.setdefault(match.group(2), {})
            layers[int(match.group(1))] = value
    for short, layers in stacks.items():
        found[SCOPE + short] = np.stack([layers[i] for i in sorted(layers)])
    return found


def write(prefix: str, arrays: dict[str, np.ndarray]) -> None:
    """Writes canonical arrays as a TF1 checkpoint, complete or not at all.

    Args:
      prefix: of the checkpoint; its folder is made.
      arrays: canonical name -> array.
    """
    found = stack(arrays)
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
        shards = [
            p
            for p in tf.io.gfile.glob(temporary + "*")
            if not p.endswith(".index")
        ]
        for path in [*shards, temporary + ".index"]:
            tf.io.gfile.rename(
                path, prefix + path[len(temporary) :], overwrite=True
            )
    finally:
        for path in tf.io.gfile.glob(temporary + "*"):
            tf.io.gfile.remove(path)
