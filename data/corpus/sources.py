"""Named parts of a corpus, and how often each is read.

`wiki=wiki/*.txt,books=books/*.txt` are two sources; patterns without names are
one that has none. A weight is how often a source's documents are read: 2 = twice,
0.5 = a random half of them, 1.5 = all of them and half of them again.
"""

import dataclasses
import glob
import math
import os
import re
from collections.abc import Callable, Sequence

from common import checks, files
from common.errors import UserError

_NAME = re.compile(r"[A-Za-z][\w.-]*")
_MOST = 100  # readings; more is a slip of the finger


@dataclasses.dataclass(frozen=True)
class Source:
    """Files that are counted and weighed together."""

    name: str  # "" = the corpus has no names
    paths: tuple[str, ...]
    weight: float = 1.0


@dataclasses.dataclass(frozen=True)
class Reading:
    """One reading of a block."""

    source: str
    first: int  # number of the block that is its text's first reading
    share: float = 1.0


def find(pattern: str, weights: str = "") -> tuple[Source, ...]:
    """The sources of comma-separated glob patterns, in their order.

    Raises UserError: a pattern matches nothing, some have names and others have
    not, a file has two names, a weight that cannot be.

    Args:
      pattern: patterns, all as `name=pattern` or none; a name may come again. A
        file that has such a name itself is a file.
      weights: `name=number`, with commas; a source without one has 1.
    """
    paths_of: dict[str, list[str]] = {}
    owner: dict[str, str] = {}
    for name, part in _split(pattern):
        for path in _match(part):
            # `a.txt` and `./a.txt` are one file.
            key = path if files.is_remote(path) else os.path.abspath(path)
            if key not in owner:
                paths_of.setdefault(name, []).append(path)
            if owner.setdefault(key, name) != name:
                raise UserError(
                    f"--input_glob: {path} is of two sources, {owner[key]} "
                    f"and {name}; give patterns that share no file"
                )
    weight_of = _weights(weights, list(paths_of))
    return tuple(
        Source(name, tuple(paths), weight_of.get(name, 1.0))
        for name, paths in paths_of.items()
    )


def plan(
    sources: Sequence[Source], cut: Callable[[Sequence[str]], list]
) -> tuple[list, tuple[Reading, ...]]:
    """All blocks: every source once, then what is read again.

    `cut`: files -> blocks; no block has two sources. Also what each block is a
    reading of: empty where every text is read once and has no name.
    """
    blocks, readings = [], []
    numbers: dict[str, range] = {}
    for source in sources:
        first = len(blocks)
        blocks += cut(source.paths)
        numbers[source.name] = range(first, len(blocks))
        share = min(source.weight, 1.0)
        readings += [
            Reading(source.name, number, share)
            for number in numbers[source.name]
        ]
    for source in sources:
        for before in range(1, math.ceil(source.weight)):
            share = min(source.weight - before, 1.0)
            for number in numbers[source.name]:
                blocks.append(blocks[number])
                readings.append(Reading(source.name, number, share))
    plain = [source.name for source in sources] == [""]
    return blocks, () if plain else tuple(readings)


def _split(pattern: str) -> list[tuple[str, str]]:
    """(name, pattern) of each part; the name is "" where there is none."""
    named_patterns = []
    for part in filter(None, pattern.split(",")):
        name, equals, rest = part.partition("=")
        if not equals or not _NAME.fullmatch(name) or os.path.exists(part):
            name, rest = "", part
        elif not rest:
            raise UserError(f"--input_glob: {part} has no pattern behind `=`")
        named_patterns.append((name, rest))
    names = [name for name, _ in named_patterns]
    if any(names) and not all(names):
        raise UserError(
            f"--input_glob: {named_patterns[names.index('')][1]} has no name and others "
            "have; give every pattern as name=pattern, or none"
        )
    if not named_patterns:
        raise UserError("--input_glob is empty; give a path or a pattern")
    return named_patterns


def _match(pattern: str) -> list[str]:
    if files.is_remote(pattern) and "**" in pattern:
        # `tf.io.gfile` reads that as one star.
        raise UserError(
            f"--input_glob={pattern}: `**` is for folders of this machine; "
            "give one pattern per depth, such as 'gs://b/*.txt,gs://b/*/*.txt'"
        )
    if files.exists(pattern) and not os.path.isdir(pattern):
        return [pattern]  # its name may have signs of a pattern
    if files.is_remote(pattern):
        import tensorflow as tf

        paths = tf.io.gfile.glob(pattern)
    else:
        matches = glob.glob(pattern, recursive=True)
        paths = [p for p in dict.fromkeys(matches) if os.path.isfile(p)]
    if not paths and os.path.isdir(pattern):
        raise UserError(
            f"--input_glob={pattern} is a folder; give a quoted pattern such as "
            f"'{os.path.join(pattern, '*.txt')}'"
        )
    if not paths:
        raise UserError(
            f"--input_glob={pattern} matches no file; give a path or a quoted "
            "pattern such as 'corpus/*.txt'"
        )
    return sorted(paths)


def _weights(text: str, names: list[str]) -> dict[str, float]:
    weight_of = {}
    for part in filter(None, text.split(",")):
        name, _, number = part.partition("=")
        if name not in names or name in weight_of or not name:
            source_names = ", ".join(filter(None, names)) or "none"
            raise UserError(
                f"--source_weights={text}: {name!r} is "
                f"{'there twice' if name in weight_of else 'no source'}; the "
                f"names in --input_glob are: {source_names}"
            )
        try:
            weight_of[name] = checks.as_number(number)
        except ValueError:
            weight_of[name] = math.nan
        if not 0 < weight_of[name] <= _MOST:
            raise UserError(
                f"--source_weights={text}: the weight of {name} must be a "
                f"number above 0 and at most {_MOST}, found {number!r}"
            )
    return weight_of
