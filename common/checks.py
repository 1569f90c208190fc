"""Ranges and choices of options and configurations, checked in one way.

Each takes the object that holds the values and the names of its attributes;
a value of None passes where None is the field's default.
"""

import json
import math
import numbers
import operator
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from common.errors import UserError

# How messages write a name: a flag of a command, or a field of a file.
FLAG, FIELD = "--{}", "`{}`"
PACKED = (".gz", ".xz", ".bz2", ".zip", ".zst")
_SIDES = {
    "[": operator.ge,
    "(": operator.gt,
    "]": operator.le,
    ")": operator.lt,
    ">=": operator.ge,
    ">": operator.gt,
}


def require(condition: Any, message: str) -> None:
    """Raises `UserError` with the message unless the condition holds."""
    if not condition:
        raise UserError(message)


def follows(
    given: Any, flag: str, choice: str, wanted: Sequence[str], found: str | None
) -> None:
    """Refuses a flag that is `given` where what another one chose ignores it.

    Args:
      flag, choice: names of both.
      wanted: what may be chosen for it.
      found: what is chosen, by the flag or by a file.

    Raises:
      UserError: it is none of `wanted`.
    """
    require(
        not given or found in wanted,
        f"--{flag} is of --{choice}={' or '.join(wanted)}, found "
        f"{found or 'none'}: leave it out",
    )


def plain_name(path: str, flag: str = "output_file") -> None:
    """Requires a file's name, that no reader takes for that of a packed one."""
    require(
        path != "-",
        f"--{flag}=-: wanted the name of a file; standard output is no file "
        "here, and ./- is one of that name",
    )
    ending = next((e for e in PACKED if path.lower().endswith(e)), "")
    require(
        not ending, f"--{flag} is written plain: give a name without {ending}"
    )


def within(
    holder: Any, interval: str, *names: str, form: str = FLAG, whole=False
) -> None:
    """Requires numbers in an interval; NaN and infinite numbers are in none.

    Args:
      interval: "> 0", ">= 1", or "[0, 1)" with either bracket at either end.
      form: how the message writes a name.

    Raises:
      UserError: names the first value outside.
    """
    kind, noun = (numbers.Real, "a number")
    if whole:
        kind, noun = (numbers.Integral, "a whole number")
    for name, value in _given(holder, names):
        if isinstance(value, bool) or not isinstance(value, kind):
            _refuse(form.format(name), noun, value)
        shown = interval if interval[0] == ">" else f"in {interval}"
        if not all(side(value, bound) for side, bound in _bounds(interval)):
            _refuse(form.format(name), shown, value)
        if value == math.inf:
            _refuse(form.format(name), f"{shown} and finite", value)


def one_of(holder: Any, form: str = FLAG, **choices: Iterable[str]) -> None:
    """Requires `name`, or each part of it, to be one of `choices`.

    Raises UserError with the first value that is not.
    """
    for name, value in _given(holder, choices):
        known = tuple(choices[name])
        for part in value if isinstance(value, tuple) else (value,):
            if part not in known:
                shown = ", ".join(choice or '""' for choice in known)
                _refuse(form.format(name), f"one of {shown}", part)


def true_or_false(holder: Any, *names: str, form: str = FIELD) -> None:
    """Requires bools; raises UserError with the first value that is none."""
    for name, value in _given(holder, names):
        if not isinstance(value, bool):
            _refuse(form.format(name), "true or false", value)


def distinct(
    holder: Any, name: str, noun: str, same: Callable[[str], str] = str
) -> None:
    """Raises UserError where a list of the command line names one twice.

    Names are of one thing where `same` gives one value for both.
    """
    values = getattr(holder, name)
    require(
        len(set(map(same, values))) == len(values),
        f"--{name} names {noun} twice: {', '.join(values)}",
    )


def distinct_folders(holder: Any, name: str) -> None:
    """`distinct` of paths, however they are spelled."""
    distinct(holder, name, "a folder", os.path.abspath)


def as_number(text: str, kind: type = float) -> Any:
    """kind(text) of a number as other programs read it.

    Python takes `1_000` and digits of all scripts. Raises ValueError.
    """
    if "_" in text or not text.isascii():
        raise ValueError(f"no number: {text[:40]!r}")
    return kind(text)


def parse_json(text: str) -> Any:
    """The value of JSON text whose objects have each key once.

    Python's reader keeps the last of two: half of a file would be gone. Raises
    ValueError, also for no JSON; RecursionError.
    """
    return json.loads(text, object_pairs_hook=each_key_once)


def each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object, for `object_pairs_hook` of `json.loads`.

    Raises ValueError: a key is there twice. Some readers take the first value
    and some the last one.
    """
    value = dict(pairs)
    if len(value) < len(pairs):
        seen: set[str] = set()
        key = next(k for k, _ in pairs if k in seen or seen.add(k))
        raise ValueError(f"an object has the key {key[:40]!r} twice")
    return value


def weights(holder: Any, name: str, count: int, noun: str) -> None:
    """Requires positive, finite numbers: none, or `count`, one per `noun`."""
    values = getattr(holder, name)
    require(
        len(values) in (0, count),
        f"--{name}: wanted one per {noun} ({count}), received {len(values)}",
    )
    require(
        all(0 < value < float("inf") for value in values),
        f"--{name} must be positive, received {','.join(map(str, values))}",
    )


def _given(holder: Any, names: Iterable[str]) -> Iterable[tuple[str, Any]]:
    for name in names:
        value = getattr(holder, name)
        if value is not None or getattr(type(holder), name, ...) is not None:
            yield name, value


def _bounds(interval: str) -> Iterable[tuple[Any, float]]:
    if interval[0] == ">":
        side, bound = interval.split()
        return [(_SIDES[side], float(bound))]
    low, high = map(float, interval[1:-1].split(","))
    return [(_SIDES[interval[0]], low), (_SIDES[interval[-1]], high)]


def _refuse(name: str, wanted: str, value: Any) -> None:
    raise UserError(f"{name} must be {wanted}, received {value!r}")
