"""The columns of a table, settled once for training and prediction (L2)."""

import dataclasses
import re

from common.errors import UserError
from data.finetuning import table_files as task_readers
from data.finetuning.classifier import sources as classifier_sources
from data.finetuning.classifier.sources import TableOptions
from data.finetuning.examples import BadRows


@dataclasses.dataclass(frozen=True)
class Columns:
    """Columns of a file, by name, or by number from 0 without a header.

    Attributes:
      names: all of them, in order; empty where the files are no table.
      texts: those that hold the texts, in order.
      label: the one of the label; "" where there is none.
    """

    names: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    label: str = ""


def read_columns(path: str, options: TableOptions) -> Columns:
    """The columns of a TSV, CSV or JSONL file, from its first row.

    Raises:
      UserError: an empty file, or a wanted column is missing.
    """
    where, names = first_row(path, options.has_header)
    texts, label = classifier_sources.choose_columns(
        where, list(names), options, need_label=True
    )
    return Columns(tuple(names), tuple(texts), label or "")


def first_row(path: str, has_header: bool) -> tuple[str, list[str]]:
    """("file:line", column names) of a file's first usable row."""
    bad = BadRows(skip=True)
    stem = re.sub(r"\.(gz|xz)$", "", path)
    if stem.endswith((".jsonl", ".json")):
        for where, value in task_readers.read_jsonl(path, bad):
            return where, list(value)
        raise UserError(f"{path}:1: the file is empty")
    is_csv = stem.endswith(".csv")
    read = task_readers.read_csv if is_csv else task_readers.read_tsv
    for row in read(path, bad):
        names = [f.strip() for f in row.fields]
        if not has_header:
            names = [str(i) for i in range(len(names))]
        return row.where, names
    raise UserError(f"{path}:1: the file is empty")
