"""The original's checkpoints: its names, its optimizer slots.

A TF1 checkpoint is a prefix (`xlnet_model.ckpt`) of an `.index` and `.data`
files. The original puts the task's name into the scope of a classifier
(`model/classification_mnli`); ours has none. What else it keeps in another way
is said by the encoder (`EncoderSpec.original`).
"""

import os
import re
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from common import files, locks
from common.errors import UserError
from common.references import resolve
from modeling.checkpoints.native import open_reader, read_tensor
from modeling.encoders.contract import EncoderConfig
from modeling.encoders.registry import spec_of

_SLOT = re.compile(r"/(adam_m|adam_v|Adam|Adam_1)$")
_COUNTERS = ("global_step", "beta1_power", "beta2_power")
_TASK = re.compile(r"^model/(classification|regression)_([^/]+)/logit/")


def read(
    prefix: str, config: EncoderConfig
) -> tuple[dict[str, np.ndarray], list[str], dict[str, str]]:
    """Reads the weights of a TF1 checkpoint by canonical name.

    Returns the arrays by canonical name; the names of optimizer slots and
    counters left out; "classification" or "regression" -> the task name of its
    scope. Raises UserError: unreadable, stacked where it should not be, with
    the heads of several tasks of a kind, or of an encoder that has no such
    files.
    """
    original = _original(config, prefix)
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
    return original.unstack(arrays, config, prefix), stripped, tasks


def _original(config: EncoderConfig, prefix: str) -> Any:
    """What stacks and unstacks the arrays of an encoder."""
    name = spec_of(config.model_type).original
    if not name:
        raise UserError(
            f"{prefix}: no TF1 checkpoints of {config.model_type!r} are known; "
            "take another format"
        )
    return resolve(name)


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


def write(
    prefix: str,
    arrays: dict[str, np.ndarray],
    tasks: dict[str, str],
    config: EncoderConfig,
    write_beside: Callable[[], None] = lambda: None,
) -> None:
    """Writes canonical arrays as a new TF1 checkpoint, complete or not at all.

    `tasks` are those of `read`; `write_beside` writes what a reader needs,
    before there is a checkpoint, which is not replaced. Raises UserError: of an
    encoder that has no such files, or there is a checkpoint of this prefix.
    """
    tensors = {}
    for name, value in _original(config, prefix).stack(arrays).items():
        for kind, task in tasks.items():
            name = name.replace(f"model/{kind}/", f"model/{kind}_{task}/", 1)
        tensors[name] = value
    folder, base = os.path.split(prefix)
    if folder:
        tf.io.gfile.makedirs(folder)
    # Written under another prefix and renamed, the index last: without the
    # index there is no checkpoint.
    temporary = os.path.join(folder, f".{base}.tmp-{uuid.uuid4().hex[:8]}")
    with locks.held(prefix, is_folder=False):
        # It may be the input, or hold what this one lacks (optimizer slots).
        if files.exists(prefix + ".index"):
            raise UserError(
                f"{prefix}.index exists: a checkpoint is not replaced; give "
                "another prefix, or remove it"
            )
        locks.remove_leftovers(folder, re.escape(base))
        write_beside()
        _save(temporary, prefix, tensors)


def _save(temporary: str, prefix: str, found: Mapping[str, np.ndarray]) -> None:
    names = sorted(found)
    try:
        tf.raw_ops.SaveV2(
            prefix=temporary,
            tensor_names=names,
            shape_and_slices=[""] * len(names),
            tensors=[tf.constant(found[name]) for name in names],
        )
        written = files.beginning_with(temporary)
        for path in sorted(written, key=lambda p: p.endswith(".index")):
            tf.io.gfile.rename(
                path, prefix + path[len(temporary) :], overwrite=True
            )
    finally:
        for path in files.beginning_with(temporary):
            tf.io.gfile.remove(path)
