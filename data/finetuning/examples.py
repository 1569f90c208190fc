"""What a task's files become before tokenization, and what a bad row does.

Every problem names file and line. By default the first one ends the command;
with `--skip_bad_rows` such rows are left out, counted and reported.
"""

import dataclasses
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from common import checks, files
from common.errors import UserError

# Problems of one file that are printed before only counting goes on.
SHOWN_PROBLEMS = 10
SHOWN_LABELS = 20  # of a training file
# Names as Python's and JSON's lists write them: pandas does so in a cell.
_LIST = re.compile(r"""\[(\s*|\s*['"].*['"]\s*|.*,.*)\]""", re.DOTALL)
_LARGEST = float(np.finfo(np.float32).max)  # a model computes in float32


@dataclasses.dataclass(frozen=True)
class TextExample:
    """One row of a classification or regression task."""

    guid: str  # the id of the submission file, or the row's number from 0
    texts: tuple[str, ...]  # one to 32 segments
    # class name, value, names (multi-label) or None when unknown
    label: str | float | tuple[str, ...] | None
    where: str  # "file:line", for messages


class BadRows:
    """Collects the problems of one reading; see the module's docstring."""

    def __init__(self, skip: bool = False):
        self.skip = skip
        self.count = 0
        self.shown: list[str] = []
        self.noted: list[str] = []
        self.said: list[str] = []

    def report(self, where: str, problem: str) -> None:
        """Counts the problem; raises UserError where `skip` is off."""
        message = f"{where}: {problem}"
        if not self.skip:
            raise UserError(
                f"{message}; correct the row or give --skip_bad_rows"
            )
        self.count += 1
        if len(self.shown) < SHOWN_PROBLEMS:
            self.shown.append(message)

    def note(self, where: str, problem: str) -> None:
        """Keeps the problem of a row that must have an answer all the same."""
        self.noted.append(f"{where}: {problem}")

    def say(self, line: str) -> None:
        """Keeps a line about how the file is read."""
        if line not in self.said:
            self.said.append(line)

    def summary(self) -> str:
        """Lines for the log; empty when there is nothing to say."""
        parts = list(self.said)
        if self.count:
            title = f"skipped {self.count} bad rows:"
            parts.append(_listing(title, self.shown, self.count))
        if self.noted:
            title = f"{len(self.noted)} rows are used as they are:"
            shown = self.noted[:SHOWN_PROBLEMS]
            parts.append(_listing(title, shown, len(self.noted)))
        return "\n".join(parts)


def _listing(title: str, shown: list[str], count: int) -> str:
    lines = [title, *shown]
    if count > len(shown):
        lines.append(f"... and {count - len(shown)} more")
    return "\n  ".join(lines)


def parse_score(text: str) -> float | str:
    """A finite number that float32 holds, or the problem as text."""
    try:
        value = checks.as_number(text)
    except ValueError:
        return f"wanted a number as label, found {text[:40]!r}"
    if not math.isfinite(value):
        return f"wanted a finite number as label, found {text[:40]!r}"
    if abs(value) > _LARGEST:
        return f"wanted a float32 number as label, found {text[:40]!r}"
    return value


def parse_label(
    text: str | Sequence[str],
    kind: str,
    known: Mapping[str, int] | None = None,
    separator: str = "|",
) -> tuple[str | float | tuple[str, ...] | None, str | None]:
    """(label, problem): one of both is None.

    Names that are not `known` are a problem; None allows all in one line. A
    multi-label field is a sequence of names, or has the separator between
    them; "" has no label.
    """
    is_cell = isinstance(text, str)
    parts = text.split(separator) if is_cell else text
    text = text.strip() if is_cell else separator.join(text)
    if kind == "regression":
        value = parse_score(text)
        return (None, value) if isinstance(value, str) else (value, None)
    if kind == "multi_label":
        names = tuple(n.strip() for n in parts if n.strip())
        listed = is_cell and _LIST.fullmatch(text)
        if listed and not {*names} <= {*(known or ())}:
            return None, (
                f"wanted names with {separator!r} between them, found the list "
                f"{text[:60]!r}: write them so, or give JSON lines, where a "
                "label may be a list"
            )
        if len(set(names)) != len(names):
            return None, f"a label is given twice in {text[:60]!r}"
    else:
        if not text:
            return None, "the label is empty"
        names = (text,)
    for name in names:
        if name in (known or ()):
            continue
        if len(name.splitlines()) > 1:
            return None, (
                f"the label {name[:40]!r} holds a line break; an export lists "
                "labels one per line"
            )
        if known is not None:
            return None, (
                f"unknown label {name[:40]!r}, wanted one of "
                f"{', '.join(list(known)[:20])}"
            )
    return (names if kind == "multi_label" else names[0]), None


def collect(
    rows: Iterable[tuple],
    bad: BadRows,
    kind: str,
    known: Mapping[str, int] | None = None,
    separator: str = "|",
) -> list[TextExample]:
    """Examples of rows, those that cannot be used reported.

    A row is (where, texts, label as `parse_label` takes it or None, id or "",
    problem or None). Without an id it has its number in the file, where those that are bad
    count, too.
    """
    examples, skipped = [], bad.count
    for where, texts, label_text, key, problem in rows:
        guid, label = key or str(len(examples) + bad.count - skipped), None
        if not problem and label_text is not None:
            label, problem = parse_label(label_text, kind, known, separator)
        if problem:
            bad.report(where, problem)
            continue
        examples.append(TextExample(guid, tuple(texts), label, where))
    return examples


def describe_labels(names: Sequence[str], found: Iterable[str]) -> str:
    """The classes and how often each is found, for the log.

    Classes that look alike are noted: they may be one that is written in two
    ways, as by programs that make numbers or Unicode's forms of their own.

    >>> describe_labels(["neg", "pos"], ["pos", "neg", "pos"])
    "labels (2): 'neg' 1, 'pos' 2"
    """
    counts = Counter(found)
    shown = [f"{name!r} {counts[name]:,}" for name in names[:SHOWN_LABELS]]
    if len(names) > len(shown):
        shown.append(f"and {len(names) - len(shown):,} more")
    line = f"labels ({len(names):,}): {', '.join(shown)}"
    looks: dict[str, str] = {}
    for name in names:
        other = looks.setdefault(_look(name), name)
        if other != name:
            line += (
                f"\nnote: the labels {other!a} and {name!a} look alike; if "
                "they are one, write it in one way"
            )
            break
    return line


def _look(name: str) -> str:
    """What a reader sees of a label: no case, no joiners, a number's value."""
    text = unicodedata.normalize("NFKC", name).casefold()
    text = "".join(c for c in text if unicodedata.category(c) != "Cf")
    try:
        return str(checks.as_number(text))
    except ValueError:
        return " ".join(text.split())


def write_tsv(path: str, rows: Sequence[Sequence[str]]) -> str:
    """Writes rows, tabs and line ends inside fields as spaces; the path."""
    clean = str.maketrans("\t\r\n", "   ")
    lines = ("\t".join(f.translate(clean) for f in row) for row in rows)
    files.write_text(path, "".join(line + "\n" for line in lines))
    return path


def share_rows(
    guids: Iterable[str], names: Sequence[str], shares: np.ndarray
) -> list[list[str]]:
    """Header and one row per example: guid, the likeliest name, all shares.

    The shares are probabilities `[N, Y]`, one per name.
    """
    rows = [["guid", "prediction", *(f"p({n})" for n in names)]]
    for guid, row in zip(guids, shares, strict=True):
        guess = names[int(np.argmax(row))]
        rows.append([guid, guess, *(f"{p:.6f}" for p in row)])
    return rows


def labelled_rows(
    predicted: Sequence[Sequence[str]],
    gold: Sequence[str],
    texts: Sequence[Sequence[str]],
    names: Sequence[str],
) -> list[list[str]]:
    """Rows of predictions with the right label and, by `names`, all texts."""
    head, *rows = predicted
    labelled = [
        [guid, label, *row, *parts]
        for (guid, *row), label, parts in zip(rows, gold, texts, strict=True)
    ]
    return [["guid", "label", *head[1:], *names], *labelled]


def some_of(examples: Sequence[Any], count: int, seed: int) -> list[Any]:
    """So many examples, drawn at random, in file order; all where `count` is 0.

    Fewer are a part of more: with one seed 50 examples are among its 200.
    Raises UserError: there are not so many.
    """
    if not count:
        return list(examples)
    if count > len(examples):
        raise UserError(
            f"--train_examples={count}: the training data have "
            f"{len(examples)}; give fewer, or leave the flag out for all"
        )
    order = np.random.default_rng([seed, 0x5E7]).permutation(len(examples))
    return [examples[i] for i in sorted(order[:count].tolist())]
