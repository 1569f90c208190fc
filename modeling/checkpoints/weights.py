"""The weights of a folder: one rule for every command that reads a model.

A training leaves its newest checkpoint and, where it evaluates, the best one
in `best/`. The best one is the folder's where the run kept it and looked at
every later one; else the newest is.
"""

import json
import os
from typing import Any, NamedTuple

from common import files
from common.errors import UserError
from common.weights.weights_line import AUTO, BEST, LAST
from modeling.checkpoints import native
from modeling.checkpoints.folder import newest_prefix
from modeling.encoders.registry import config_file_in

LOG_NAME = "evaluations.jsonl"
_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"


class Best(NamedTuple):
    """What `best/` of a folder holds."""

    path: str
    step: int
    value: float
    # its name; None in folders of versions that did not save it
    metric: str | None


class Chosen(NamedTuple):
    """A checkpoint of a folder: its prefix, and why this one."""

    path: str
    why: str


def home_of(folder: str) -> str:
    """The folder with the settings of the checkpoints in `folder`.

    `best/` has none of its own: the model's, one level up, are its settings.
    A model folder that is called so has.
    """
    name = os.path.basename(folder.rstrip("/"))
    if name != BEST or config_file_in(folder):
        return folder
    above = os.path.dirname(folder.rstrip("/"))
    return above if config_file_in(above) else folder


def name_in(home: str, path: str) -> str:
    """A checkpoint's name within its model's folder: `best/model.ckpt-2`."""
    return os.path.relpath(path, home) if home else path


def read_best(folder: str) -> Best | None:
    """What `best/` of a folder holds, or None; UserError if damaged."""
    path = newest_prefix(os.path.join(folder, BEST))
    if path is None:
        return None
    reader = native.open_reader(path)

    def read(name: str, default: Any = None) -> Any:
        if default is not None and not reader.has_tensor(name + _VALUE):
            return default
        return native.read_tensor(reader, name + _VALUE, path)

    if not reader.has_tensor("value" + _VALUE):
        return None  # a model folder that is called so, of another run
    metric = read("metric", b"").decode()
    return Best(
        path,
        int(read("step")),
        float(read("value")),
        metric or None,
    )


def read_log(folder: str) -> dict[int, dict]:
    """Step -> row of `evaluations.jsonl` in its order, maybe {}.

    Raises UserError: the file is damaged.
    """
    path = os.path.join(folder, LOG_NAME)
    if not files.exists(path):
        return {}
    with files.open_binary(path) as f:
        content = f.read()
    try:
        rows = [json.loads(line) for line in content.decode().splitlines()]
        log = {row["step"]: row for row in rows}
        for row in rows:
            if not {int, float}.issuperset(map(type, row.values())):
                raise TypeError(f"wanted numbers, found {row}")
        return log
    except (ValueError, TypeError, KeyError, RecursionError) as e:
        raise UserError(
            f"{path} is damaged ({e}): move it away; wanted one JSON object "
            "with a step per line"
        ) from e


def choose(folder: str, choice: str = AUTO) -> Chosen | None:
    """The weights of a model's folder or its `best/`, None where none are ours.

    Of `weights_line.CHECKPOINT_CHOICES` "best" and "last" name one of the two.
    Raises UserError: that one is not there, or a file is damaged.
    """
    last, best = newest_prefix(folder), None
    if choice != LAST or last is None:
        best = read_best(folder)
    if last is None and best is None:
        return None
    if (best if choice == BEST else last) is None and choice != AUTO:
        raise UserError(
            f"--checkpoint_choice={choice}: {folder} holds {last or best.path} "
            f"alone; a training with --eval_every keeps a {BEST}/"
        )
    if best is None:
        return Chosen(last, "the newest")
    metric = f"by {best.metric}, " if best.metric else ""
    kept = f"the best {metric}{best.value:.5g}"
    if last is None or choice == BEST:
        return Chosen(best.path, kept)
    against = _against(folder, best, last)
    if against:
        return Chosen(last, f"the newest; not {BEST}/: {against}")
    return Chosen(best.path, kept)


def _against(folder: str, best: Best, last: str) -> str | None:
    """Why `best/` is not the best of the run that ends with `last`, or None."""
    rows, end = read_log(folder), last.rpartition("-")[2]
    row = rows.get(best.step, {})
    values = row.values() if best.metric is None else [row.get(best.metric)]
    if best.value not in values:
        return f"{LOG_NAME} has no evaluation of its step {best.step}"
    if not end.isdigit() or int(end) not in rows or best.step > int(end):
        return f"it is of step {best.step}, and step {end} was not evaluated"
    return None
