"""`run.json`: what a run was started with, and what it must stay equal in."""

import contextlib
import datetime
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterable

import tensorflow as tf
import tf_keras

from common import files
from common.errors import UserError

FILE_NAME = "run.json"
_OBJECTS = ("flags", "must_match", "should_match")
_LONGEST = 100  # characters of a value in a message
# Fields that files of older versions lack -> what they mean there, where the
# flags of that start do not say it.
LATER = {
    "next_sentence": False,
    "target_order": "random",
    "mlm_stream": "content",
    "reset_memory_at_document": False,
    "resample_permutation": False,
    "resample_targets": False,
    "half_loss": False,
    "order": "ordered",
    "min_batch_size": 0,
    "batch_size_warmup_tokens": 0,
    "train_weights": [],
}


def versions() -> dict[str, str]:
    """Of everything that the numbers depend on."""
    import numpy as np

    return {
        "python": platform.python_version(),
        "tensorflow": tf.__version__,
        "tf_keras": tf_keras.__version__,
        "numpy": np.__version__,
        "platform": platform.platform(),
    }


def git_revision() -> str | None:
    """Commit of the source tree, with "+" when it was changed; or None."""
    root = os.path.dirname(
        os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    )

    def git(*arguments):
        return subprocess.run(
            ["git", "-C", root, *arguments],
            capture_output=True,
            text=True,
            timeout=20,
            check=True,
        ).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no")
        return git("rev-parse", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return None


def devices() -> list[str]:
    """Physical devices, kinds counted."""
    counts: dict[str, int] = {}
    for device in tf.config.list_physical_devices():
        counts[device.device_type] = counts.get(device.device_type, 0) + 1
    return [f"{n} {kind}" for kind, n in sorted(counts.items())]


def check(model_dir: str, must_match: dict) -> None:
    """Raises UserError: fields of `must_match` differ from `run.json`'s."""
    path = os.path.join(model_dir, FILE_NAME)
    _check(path, _read(path), must_match)


def update(
    model_dir: str,
    flags: dict,
    must_match: dict,
    should_match: dict,
    resuming: bool,
    write: bool = True,
    trains: bool = True,
) -> list[str]:
    """Checks this start against the last one and adds it to `run.json`.

    A start that trains no step (`trains`) leaves the flags and settings as they
    are, with which the weights were made. Without `write` it only checks.
    Where a field of `should_match` changes, a resumed run goes on, but not bit
    for bit, and one without a step left keeps its weights. Returns warnings, one line each; one of them where nothing could be
    checked. Raises UserError: a field of `must_match` changed; lists wanted and
    found.
    """
    path = os.path.join(model_dir, FILE_NAME)
    record = _read(path) if resuming else {}
    warnings = []
    if resuming and not record.get("must_match"):
        warnings.append(
            f"{path} is missing or says nothing: whether {_and(must_match)} are those of "
            "the steps before is not known; put the file back if you have it"
        )
    if record:
        _check(path, record, must_match)
        found = _older(record) | record.get("should_match", {})
        what = "the run continues, but not bit for bit as before"
        if not trains:
            what = "no step is left to train, the weights are of what was found"
        for line in _differences(found, should_match):
            warnings.append(f"{line}: {what}")
    if not write:
        return warnings
    start = {
        "time": datetime.datetime.now(datetime.UTC).isoformat("T", "seconds"),
        "command": sys.argv,
        "host": platform.node(),
        "devices": devices(),
        "git_revision": git_revision(),
        "versions": versions(),
    }
    values = {
        "flags": flags,
        "must_match": must_match,
        "should_match": should_match,
    }
    if not trains:
        values |= {name: record[name] for name in values if name in record}
    starts = [*record.get("starts", []), start]
    files.write_json(path, values | {"starts": starts})
    return warnings


def train_steps(model_dir: str) -> int | None:
    """The last step of the run of a folder, None where nothing says it."""
    record = _read(os.path.join(model_dir, FILE_NAME))
    steps = record.get("should_match", {}).get("train_steps")
    return steps if isinstance(steps, int) else None


def trained_otherwise(
    folder: str, names: Iterable[str], must_match: dict
) -> list[str]:
    """A line about settings of an evaluation that its weights' training had not.

    `names` of `update`'s `must_match`, of the run in `folder`; [] where all are
    equal or none is known.
    """
    path = os.path.join(folder, FILE_NAME)
    found = _read(path).get("must_match", {})
    wanted = {name: must_match[name] for name in names if name in must_match}
    wrong = _differences(found, wanted)
    if not wrong:
        return []
    return [
        f"note: {'; '.join(wrong)}: the weights were trained with what was "
        f"found in {path}; give the training's flags for its numbers"
    ]


def _check(path: str, record: dict, must_match: dict) -> None:
    found = _older(record) | record.get("must_match", {})
    wrong = _differences(found, must_match) if record else []
    if wrong:
        raise UserError(
            f"{path}: this run was started with other settings: "
            f"{'; '.join(wrong)}; use those flags or another --model_dir"
        )


def _older(record: dict) -> dict:
    """What fields mean that the file of an older version lacks."""
    recorded = record.get("flags", {})
    return {name: recorded.get(name, LATER[name]) for name in LATER}


def _and(fields: dict) -> str:
    *first, last = (f"`{name}`" for name in sorted(fields))
    return f"{', '.join(first)} and {last}" if first else last


def _read(path: str) -> dict:
    if not files.exists(path):
        return {}
    record = files.read_json_object(path, "move it away")
    check_kinds(path, record)
    return record


def check_kinds(path: str, record: dict) -> None:
    """Raises UserError: a field that is there is not of its kind."""
    _check_kinds(path, record, dict.fromkeys(_OBJECTS, dict))
    _check_kinds(path, record, {"starts": list})
    for start in record.get("starts", ()):
        _check_kinds(path, {"a start": start}, {"a start": dict})
        _check_kinds(path, start, {"versions": dict})


def _check_kinds(path: str, found: dict, kinds: dict[str, type]) -> None:
    for name, kind in kinds.items():
        value = found.get(name, kind())
        if not isinstance(value, kind):
            raise UserError(
                f"{path}: {name}: wanted {kind.__name__}, found "
                f"{type(value).__name__}; move the file away"
            )


def _differences(found: dict, wanted: dict) -> list[str]:
    """`name: wanted x, found y` for every field that both know.

    Of objects, those in JSON among them, the fields that differ, in one text.
    """
    wanted = json.loads(json.dumps(wanted))
    return [
        "; ".join(_parts(name, found[name], wanted[name]))
        for name in sorted(wanted)
        if name in found and found[name] != wanted[name]
    ]


def _parts(name: str, found: object, wanted: object) -> list[str]:
    theirs, ours = _object(found), _object(wanted)
    if not (theirs and ours):
        return [f"`{name}` wanted {_short(wanted)}, found {_short(found)}"]
    fields = {n: (theirs.get(n, "nothing"), v) for n, v in ours.items()}
    fields |= {n: (v, "nothing") for n, v in theirs.items() if n not in ours}
    return [
        f"`{name}.{field}` wanted {_short(b)}, found {_short(a)}"
        for field, (a, b) in sorted(fields.items())
        if a != b
    ]


def _object(value: object) -> dict:
    """Itself, what its JSON says, or {}."""
    if isinstance(value, str) and value.startswith("{"):
        with contextlib.suppress(ValueError):
            value = json.loads(value)
    return value if isinstance(value, dict) else {}


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."
