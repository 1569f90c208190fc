"""Which checkpoints a folder holds, and which of them is the newest.

The files that are there decide. The `checkpoint` file beside them only says
which names to prefer: it may be missing, old, or name what is gone.
"""

import dataclasses
import functools
import os
import re
import sys
from collections.abc import Iterable

from google.protobuf import text_format
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import tensor_bundle_pb2
from tensorflow.python.training import checkpoint_state_pb2

from common import files
from common.errors import UserError
from common.weights.bundle import MAGIC

HINT = "checkpoint"
INDEX = ".index"
# A save that has not become whole keeps its parts in this folder.
UNFINISHED = "_temp"
SHARD = re.compile(r"(.+)\.data-(\d+)-of-(\d+)")
_STEP = re.compile(r"(.+)-(\d+)")


@dataclasses.dataclass(frozen=True)
class Newest:
    """The newest whole checkpoint of a folder."""

    prefix: str
    # one line where it is not what the `checkpoint` file names, or where newer
    # files are not whole; else empty
    why: str = ""


def newest(folder: str, base: str | None = None) -> Newest | None:
    """The newest whole checkpoint, None where a folder holds none at all.

    A checkpoint is whole when its `.index` is whole and every data shard that
    the index names is there. The highest step is the newest. The folder, local
    or remote, need not exist. `base` is that of the names, `model.ckpt` for
    example; if not given the one that the `checkpoint` file names, or the only
    one. Raises UserError: checkpoints are there but none is whole, or they are
    of several names and nothing says which is meant.
    """
    # A training may put the next one in the place of the last meanwhile.
    for _ in range(2):
        there = _look(folder, base)
        found, faults = _newest_of(folder, there)
        if found or not (faults or there.hint):
            return found
    raise UserError(_none_whole(folder, there, faults))


def _newest_of(
    folder: str, there: "_Folder"
) -> tuple[Newest | None, dict[str, str]]:
    """The newest whole one of what was seen, and faults of newer ones."""
    faults: dict[str, str] = {}
    for name in reversed(there.names):
        fault = _fault(folder, name, there.shards)
        if not fault:
            why = _why(there, name, faults)
            return Newest(os.path.join(folder, name), why), faults
        if name == there.hint or name not in there.unfinished:
            faults[name] = fault
    return None, faults


def newest_prefix(folder: str, base: str | None = None) -> str | None:
    """`newest`'s prefix; UserError as there.

    Its line goes to standard error, once per process.
    """
    latest = newest(folder, base)
    if latest is None:
        return None
    if latest.why:
        _say_once(latest.why)
    return latest.prefix


def whole(folder: str, base: str | None = None) -> list[str]:
    """Prefixes of all whole checkpoints, oldest first; as `newest`."""
    there = _look(folder, base)
    return [
        os.path.join(folder, name)
        for name in there.names
        if not _fault(folder, name, there.shards)
    ]


def unfinished(folder: str, base: str) -> set[str]:
    """Names of what a killed process was saving and that never became whole."""
    there = _look(folder, base)
    return {
        name
        for name in there.unfinished - {there.hint}
        if _fault(folder, name, there.shards)
    }


def step_of(prefix: str) -> int:
    """The number at the end of a prefix; -1 without one."""
    match = _STEP.fullmatch(os.path.basename(prefix))
    return int(match[2]) if match else -1


def publish(folder: str, prefixes: Iterable[str]) -> None:
    """Writes the `checkpoint` file, atomically; the newest prefix is the last."""
    names = [os.path.basename(prefix) for prefix in prefixes]
    lines = [f'model_checkpoint_path: "{names[-1]}"']
    lines += [f'all_model_checkpoint_paths: "{name}"' for name in names]
    files.write_text(os.path.join(folder, HINT), "\n".join(lines) + "\n")


# --- What is there -------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Folder:
    """What lies in a folder of checkpoints."""

    names: list[str]  # of checkpoints, whole or not, by step
    # names of saves with a temporary folder: what is not whole among them never
    # was a checkpoint
    unfinished: set[str]
    shards: dict[str, set[str]]  # name -> "number-of-count" of every data file
    hint: str | None  # what `checkpoint` names, None where it names nothing


def _look(folder: str, base: str | None) -> _Folder:
    try:
        there = set(files.list_names(folder))
    except (FileNotFoundError, NotADirectoryError):
        there = set()
    shards: dict[str, set[str]] = {}
    for name in there:
        if match := SHARD.fullmatch(name):
            part = f"{int(match[2])}-of-{int(match[3])}"
            shards.setdefault(match[1], set()).add(part)
    names = {n.removesuffix(INDEX) for n in there if n.endswith(INDEX)}
    names.update(shards)
    hint = _hint(folder) if HINT in there else None
    if base is None:
        base = _base_of(folder, names, hint)
    ours = [name for name in names if _base(name) == base]
    begun = {
        n.removesuffix(UNFINISHED) for n in there if n.endswith(UNFINISHED)
    }
    begun = {name for name in begun if _base(name) == base}
    if hint is not None and _base(hint) != base:
        hint = None
    return _Folder(sorted(ours, key=step_of), begun, shards, hint)


def _base(name: str) -> str:
    match = _STEP.fullmatch(name)
    return match[1] if match else name


def _base_of(folder: str, names: set[str], hint: str | None) -> str | None:
    bases = {_base(name) for name in names}
    if hint is not None and (_base(hint) in bases or not bases):
        return _base(hint)
    if len(bases) > 1:
        raise UserError(
            f"{folder} holds checkpoints of {len(bases)} names "
            f"({', '.join(sorted(bases)[:5])}) and no `checkpoint` file that "
            "names one: give the prefix"
        )
    return next(iter(bases), None)


def _hint(folder: str) -> str | None:
    """The name in the `checkpoint` file; its folder may have been moved."""
    state = checkpoint_state_pb2.CheckpointState()
    try:
        # `tf.train.get_checkpoint_state` warns where this is damaged.
        data = files.read_bytes(os.path.join(folder, HINT))
        text_format.Parse(data, state)
    except (OSError, ValueError, text_format.ParseError):
        return None
    return os.path.basename(state.model_checkpoint_path) or None


def _fault(folder: str, name: str, shards: dict[str, set[str]]) -> str:
    """Why a checkpoint is not whole; empty where it is."""
    path = os.path.join(folder, name + INDEX)
    try:
        data = files.read_bytes(path)
    except FileNotFoundError:
        return f"{name}{INDEX} is missing"
    except OSError as e:
        return f"{name}{INDEX} cannot be read: {e.strerror or e}"
    count = _shard_count(data)
    if not count:
        return f"{name}{INDEX} is cut or damaged"
    for i in range(count):
        if f"{i}-of-{count}" not in shards.get(name, ()):
            return f"{name}.data-{i:05}-of-{count:05} is missing"
    return ""


def _shard_count(index: bytes) -> int:
    """Data shards that an index names; 0 where it is not whole.

    A table of TensorFlow begins with the entry of the empty key: three lengths
    of a byte (shared key, own key, value), then the header.
    """
    if len(index) < 3 or index[:2] != b"\0\0" or not index.endswith(MAGIC):
        return 0
    header = tensor_bundle_pb2.BundleHeaderProto()
    try:
        header.ParseFromString(index[3 : 3 + index[2]])
    except DecodeError:
        return 0
    return header.num_shards


# --- What is said --------------------------------------------------------------


def _why(found: _Folder, taken: str, faults: dict[str, str]) -> str:
    reasons = [fault for fault in faults.values() if fault]
    hint = found.hint
    if hint is not None and hint != taken:
        named = f"`{HINT}` names {hint}"
        if hint not in found.names:
            reasons.append(f"{named}, which is not there")
        elif not faults.get(hint):
            reasons.append(f"{named}, which is older")
    if hint is None and len(found.names) > 1:
        reasons.append(f"no `{HINT}` file says which")
    if not reasons:
        return ""
    return f"note: took {taken}, the newest whole checkpoint: " + "; ".join(
        reasons
    )


def _none_whole(folder: str, found: _Folder, faults: dict[str, str]) -> str:
    reasons = list(faults.values())[:3]
    if found.hint is not None and found.hint not in found.names:
        reasons.append(f"`{HINT}` names {found.hint}, which is not there")
    return (
        f"{folder} holds no whole checkpoint: {'; '.join(reasons)}; put "
        "whole files back, or start over in another folder"
    )


@functools.cache
def _say_once(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
