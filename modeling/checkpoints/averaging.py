"""The mean of the last checkpoints of a run."""

import os

import numpy as np
import tensorflow as tf

from common import files
from common.errors import UserError
from common.vocabularies import released_vocabulary, vocabulary
from modeling.checkpoints import conversion, native
from modeling.checkpoints.folder import newest, whole
from modeling.checkpoints.names import named_variables
from modeling.checkpoints.restore import Source
from modeling.command_options import AverageOptions
from modeling.encoders.registry import config_file_in, read_config

# Task and vocabulary. All else is of a run, which may go on, or of other weights.
_OF_A_MODEL = (
    "task.json",
    vocabulary.SYMBOLS_NAME,
    *vocabulary.FILE_NAMES,
    vocabulary.sidecar(vocabulary.FILE_NAME),
    vocabulary.HF_CONFIG,
    released_vocabulary.MERGES_NAME,
)


def mean(values: list[np.ndarray]) -> np.ndarray:
    """The plain mean, summed in float64, of the dtype of the values."""
    total = sum(value.astype(np.float64) for value in values)
    return (total / len(values)).astype(values[0].dtype)


def last_checkpoints(folder: str, count: int) -> list[str]:
    """Prefixes of the last `count` whole checkpoints, oldest first.

    Raises UserError: there are fewer.
    """
    prefixes = whole(folder)
    if len(prefixes) < count:
        raise UserError(
            f"{folder} holds {len(prefixes)} checkpoint(s), wanted the last "
            f"{count}: train with --max_save={count} or more and --save_steps"
        )
    return prefixes[-count:]


def average(options: AverageOptions) -> list[str]:
    """Writes the mean as a model folder of its own; returns report lines.

    Where a training kept moving averages of its weights, those are averaged.
    Raises UserError: too few checkpoints, or `output` exists.
    """
    folder = options.model_dir
    prefixes = last_checkpoints(folder, options.last)
    path = config_file_in(folder)
    if path is None:
        raise UserError(f"{folder} holds no configuration of a model")
    config = read_config(path)
    arrays: dict[str, list[np.ndarray]] = {}
    for prefix in prefixes:
        weights = conversion.read(
            Source("native", prefix, folder), config, None
        )
        for name, variable in named_variables(weights.model).items():
            arrays.setdefault(name, []).append(variable.numpy())
    for name, variable in named_variables(weights.model).items():
        variable.assign(mean(arrays[name]))
    native.write(
        options.output,
        weights.model,
        config,
        lambda target: _copy_others(folder, target),
    )
    latest = newest(folder)
    return [
        *([latest.why] if latest and latest.why else []),
        f"{len(arrays)} variables averaged over {len(prefixes)} checkpoints: "
        + ", ".join(os.path.basename(prefix) for prefix in prefixes),
        f"written: {options.output}",
    ]


def _copy_others(folder: str, target: str) -> None:
    """What belongs to a model, beside the weights."""
    for name in _OF_A_MODEL:
        source, goal = (os.path.join(f, name) for f in (folder, target))
        if files.exists(source) and not files.exists(goal):
            tf.io.gfile.copy(source, goal)
