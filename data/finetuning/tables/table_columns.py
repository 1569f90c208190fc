"""The columns of a table: which hold texts, label and id.

Settled once for training and prediction; what was taken is said. Names are
compared as they stand, then without case.
"""

import dataclasses
import functools
import os
import re
from collections.abc import Iterable, Sequence

from common import files
from common.errors import UserError
from data.finetuning.examples import BadRows
from data.finetuning.features.pair_features import MAX_SEGMENTS
from data.finetuning.options import ClassifierDataOptions
from data.finetuning.tables import quoted_rows, table_files

# Columns of a generic table that hold text when --text_columns is not given.
TEXT_NAME = re.compile(
    r"(text|sentence|question|premise|hypothesis|passage|title|body)"
    r"[_ ]?([a-z]|\d+)?"
)
LABEL_NAMES = ("label", "labels", "score", "gold_label", "class")
KEY_NAMES = ("id", "guid", "key", "index", "idx", "uid")


def refuse_names(
    where: str,
    fields: list[str],
    wanted: Sequence[str],
    trained: Sequence[str] = (),
) -> None:
    """UserError: a first row is a header, which would be answered as a row.

    All its fields are names of columns (also those of the training), a text's
    among them, and it does not name the texts that are wanted. One field may
    hold all names, with another sign between them.
    """
    sign = _other_sign(fields)
    names = fields[0].split(sign) if sign else fields
    lower = [name.strip().lower() for name in names]
    known = {name.lower() for name in (*wanted, *trained)}
    texts = [name for name in lower if TEXT_NAME.fullmatch(name)]
    texts += [name.lower() for name in wanted if name.lower() in lower]
    if texts and not {*lower} - {*texts, *known, *LABEL_NAMES, *KEY_NAMES}:
        advice = _advice(fields) if sign else "give --text_columns"
        raise UserError(
            f"{where}: the first row {fields[:20]} names columns, but not the "
            f"texts {', '.join(wanted)}: {advice}, or --nohas_header where it "
            "is a row"
        )


@dataclasses.dataclass(frozen=True)
class Columns:
    """Columns of a file, by name, or by number from 0 without a header."""

    # all of them, in order; empty where the files are no table
    names: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()  # those that hold the texts, in order
    label: str = ""  # the one of the label; "" where there is none
    key: str = ""  # the one of the rows' ids; "" where there is none

    def describe(self, path: str) -> str:
        """What was taken, as a line."""
        line = f"{path}: columns taken: text {', '.join(self.texts)}"
        line += f"; label {self.label}" if self.label else "; no label"
        return line + (f"; id {self.key}" if self.key else "")


def find_name(wanted: str, names: Iterable[str]) -> str | None:
    """The name as it stands, or the only one that differs in case alone."""
    names = list(names)
    if wanted in names:
        return wanted
    alike = [n for n in names if n.casefold() == wanted.casefold()]
    return alike[0] if len(alike) == 1 else None


def is_below(name: str, count: int) -> bool:
    """Whether a column's name is the number of one of `count` columns."""
    return name.isdecimal() and int(name) < count


def are_numbers(columns: Sequence[str], names: Sequence[str]) -> bool:
    """Whether fields that look like columns of a header are values of a row.

    The columns are known by their numbers, and a row may hold such a number: a
    label. Only where a row counts its fields from 0 it is a header, as pandas
    writes that of a table without names.
    """
    counted = list(map(str, range(len(names))))
    return list(names) != counted and all(
        is_below(name, len(names)) for name in columns
    )


def label_candidates(names: Iterable[str]) -> list[str]:
    """Columns that are called as labels are, in the order of the file."""
    return [n for n in names if n.lower() in LABEL_NAMES]


def find_key(names: Iterable[str]) -> str:
    """The column that is called as ids are, "" without one."""
    names = list(names)
    keys = (find_name(key, names) for key in KEY_NAMES)
    return next(filter(None, keys), "")


def choose(
    where: str,
    names: list[str],
    options: ClassifierDataOptions,
    need_label: bool,
) -> Columns:
    """The columns that are taken; `where` is "file:line" of the header.

    Raises UserError: a column is missing (the label's where it is needed) or
    named twice, or the label may be in several.
    """
    duplicates = {n for n in names if names.count(n) > 1}
    texts = [find_name(n, names) or n for n in options.text_columns]
    label = _label(where, names, texts, options, need_label)
    if label and label in texts:
        raise UserError(
            f"{where}: {label!r} is the label's column and one of the texts': "
            "take it out of --text_columns, or name another with --label_column"
        )
    if not texts:
        texts = [n for n in names if TEXT_NAME.fullmatch(n.lower())]
        if not texts and len(names) == 2 and label:
            texts = [n for n in names if n != label]
        texts = [n for n in texts if n != label]
    missing = [n for n in texts if n not in names]
    if need_label and (not label or label not in names):
        missing.append(label or "label")
    if missing or not texts or duplicates & {*texts, label}:
        raise UserError(
            f"{where}: wanted {'one column each' if not missing else missing}"
            f" for text ({', '.join(texts) or 'e.g. text'}) and label, found "
            f"the columns {names[:20]}; {_advice(names)}"
        )
    if len(texts) > MAX_SEGMENTS:
        raise UserError(
            f"{where}: at most {MAX_SEGMENTS} text columns, found {len(texts)}"
        )
    label = label if label in names else ""
    key = find_key(n for n in names if n not in texts and n != label)
    return Columns(tuple(names), tuple(texts), label, key)


def _advice(names: list[str]) -> str:
    """What to do where the wanted columns are not among the names."""
    if sign := _other_sign(names):  # as spreadsheets of many countries write
        return (
            f"{sign!r} seems to separate them: write the table with commas "
            "(.csv) or tabs (.tsv)"
        )
    return "name them with --text_columns and --label_column"


def _other_sign(fields: Sequence[str]) -> str:
    """What seems to separate columns that were read as one, or ""."""
    one = fields[0] if len(fields) == 1 else ""
    return next((sign for sign in ";\t," if sign in one), "")


def _label(
    where, names, texts, options: ClassifierDataOptions, need: bool
) -> str:
    """The name of the label's column, "" without one."""
    if options.label_column:
        return find_name(options.label_column, names) or options.label_column
    candidates = label_candidates(n for n in names if n not in texts)
    if len(set(candidates)) > 1 and need:
        raise UserError(
            f"{where}: wanted one column of the label, found "
            f"{' and '.join(candidates)}: name it with --label_column"
        )
    return candidates[0] if candidates else ""


def read_columns(path: str, options: ClassifierDataOptions) -> Columns:
    """The columns of a TSV, CSV or JSONL file.

    Raises UserError: a file without a row that can be read, or see `choose`.
    """
    if is_json_lines(path):
        return choose(*object_names(path), options, True)
    bad = BadRows(skip=True)
    for row in quoted_rows.read_table(path, bad):
        names = [f.strip() for f in row.fields]
        if not options.has_header:
            names = [str(i) for i in range(len(names))]
        return choose(row.where, names, options, True)
    raise UserError((bad.shown or [f"{path}:1: the file is empty"])[0])


def is_json_lines(path: str) -> bool:
    """Whether a file holds a JSON object per line, by its name."""
    return table_files.unpacked_name(path)[0].endswith((".jsonl", ".json"))


def object_names(path: str) -> tuple[str, list[str]]:
    """("file:line" of the first object, keys of all objects); or UserError.

    Objects need not have all keys: those of the first that has most come first.
    """
    state = None if files.is_remote(path) else os.stat(path)
    where, names = _object_names(
        path, state and (state.st_size, state.st_mtime_ns)
    )
    return where, list(names)


@functools.lru_cache(maxsize=8)
def _object_names(path: str, state) -> tuple[str, tuple[str, ...]]:
    del state  # another file of that name is read again
    first, most = "", ()
    every: dict[str, None] = {}
    bad = BadRows(skip=True)
    for where, value in table_files.read_jsonl(path, bad):
        first = first or where
        if len(value) > len(most):
            most = tuple(value)
        every |= dict.fromkeys(value)
    if not first:
        empty = f"{path}:1: the file holds no JSON object"
        raise UserError(bad.shown[0] if bad.shown else empty)
    return first, tuple(dict.fromkeys([*most, *every]))
