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


class Mean:
    """The plain mean of arrays, summed in float64, of their dtype.

    It keeps their sum alone: all of them may not fit into memory.
    """

    def __init__(self):
        self._total, self._count, self._dtype = 0.0, 0, None

    def add(self, value: np.ndarray) -> None:
        """Takes one more array of the same shape."""
        self._total = self._total + value.astype(np.float64)
        self._count, self._dtype = self._count + 1, value.dtype

    def value(self) -> np.ndarray:
        """Of the arrays so far, one at least."""
        return (self._total / self._count).astype(self._dtype)


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
    means: dict[str, Mean] = {}
    for prefix in prefixes:
        weights = conversion.read(
            Source("native", prefix, folder), config, None
        )
        for name, variable in named_variables(weights.model).items():
            means.setdefault(name, Mean()).add(variable.numpy())
    for name, variable in named_variables(weights.model).items():
        variable.assign(means[name].value())
    native.write(
        options.output,
        weights.model,
        config,
        lambda target: _copy_others(folder, target),
    )
    latest = newest(folder)
    return [
        *([latest.why] if latest and latest.why else []),
        *weights.notes,  # the heads of several tasks are left out
        f"{len(means)} variables averaged over {len(prefixes)} checkpoints: "
        + ", ".join(os.path.basename(prefix) for prefix in prefixes),
        f"written: {options.output}",
    ]


def _copy_others(folder: str, target: str) -> None:
    """What belongs to a model, beside the weights."""
    for name in _OF_A_MODEL:
        source, goal = (os.path.join(f, name) for f in (folder, target))
        if files.exists(source) and not files.exists(goal):
            tf.io.gfile.copy(source, goal)
