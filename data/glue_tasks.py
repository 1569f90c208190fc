"""The nine GLUE tasks: official files, labels, metrics, submission names.

Columns are found by the header's names (MNLI's dev has more columns than its
train file); CoLA has no header. Test sets have an index column, which becomes
the guid of the submission file.
"""

import dataclasses
import os

from common.errors import UserError
from data import task_readers
from data.task_examples import BadRows, TextExample, parse_label

ENTAILMENT = ("contradiction", "entailment", "neutral")
TWO_WAY = ("entailment", "not_entailment")
BINARY = ("0", "1")


@dataclasses.dataclass(frozen=True)
class GlueTask:
    """One task.

    Attributes:
      name: official name, as in file and folder names.
      texts: header names of the segments.
      label: header name of the label.
      labels: class names in official order; empty for regression.
      metrics: names in `data.metrics`; the first one picks checkpoints.
      dev: split name -> file stem; test: likewise.
      submission: split name -> file stem of the submission.
      columns: names for files without a header (None: read the header).
    """

    name: str
    texts: tuple[str, ...]
    label: str
    labels: tuple[str, ...]
    metrics: tuple[str, ...]
    dev: dict[str, str] = dataclasses.field(
        default_factory=lambda: {"dev": "dev"}
    )
    test: dict[str, str] = dataclasses.field(
        default_factory=lambda: {"test": "test"}
    )
    submission: dict[str, str] = dataclasses.field(default_factory=dict)
    columns: tuple[str, ...] | None = None

    @property
    def head(self) -> str:
        """A key of `data.schema.HEAD_FIELDS`."""
        return "classification" if self.labels else "regression"


PAIR = ("sentence1", "sentence2")
_TASKS = (
    GlueTask(
        "CoLA",
        ("sentence",),
        "label",
        BINARY,
        ("matthews",),
        columns=("source", "label", "star", "sentence"),
    ),
    GlueTask("SST-2", ("sentence",), "label", BINARY, ("accuracy",)),
    GlueTask(
        "MRPC",
        ("#1 String", "#2 String"),
        "Quality",
        BINARY,
        ("accuracy", "f1"),
    ),
    GlueTask("STS-B", PAIR, "score", (), ("pearson", "spearman")),
    GlueTask(
        "QQP",
        ("question1", "question2"),
        "is_duplicate",
        BINARY,
        ("accuracy", "f1"),
    ),
    GlueTask(
        "MNLI",
        PAIR,
        "gold_label",
        ENTAILMENT,
        ("accuracy",),
        dev={"dev": "dev_matched", "dev_mismatched": "dev_mismatched"},
        test={"test": "test_matched", "test_mismatched": "test_mismatched"},
        submission={"test": "MNLI-m", "test_mismatched": "MNLI-mm"},
    ),
    GlueTask("QNLI", ("question", "sentence"), "label", TWO_WAY, ("accuracy",)),
    GlueTask("RTE", PAIR, "label", TWO_WAY, ("accuracy",)),
    GlueTask("WNLI", PAIR, "label", BINARY, ("accuracy",)),
)
GLUE = {task.name.lower(): task for task in _TASKS}


def split_path(task: GlueTask, data_dir: str, split: str) -> str | None:
    """The file of `split`, in `data_dir` or in its folder of the task's name.

    Raises:
      UserError: a train file that is not there.
    """
    stem = {"train": "train", **task.dev, **task.test}.get(split)
    if stem is None:
        raise UserError(
            f"{task.name} has no split {split!r}, only train, "
            f"{', '.join([*task.dev, *task.test])}"
        )
    for folder in (data_dir, os.path.join(data_dir, task.name)):
        path = task_readers.find_file(folder, f"{stem}.tsv")
        if path:
            return path
    if split == "train":
        task_readers.require_file(data_dir, f"{stem}.tsv")
    return None


def read_split(
    task: GlueTask, path: str, split: str, bad: BadRows
) -> list[TextExample]:
    """All rows of a split's file; labels only where they are known.

    Raises:
      UserError: see `BadRows`, or a header without the wanted columns.
    """
    is_test = split in task.test
    columns = None if is_test else task.columns
    wanted = [*task.texts] + ([] if is_test else [task.label])
    rows = task_readers.read_tsv(path, bad, len(columns) if columns else None)
    if columns is None:
        header = next(rows, None)
        if header is None:
            raise UserError(f"{path}:1: the file is empty, wanted a header")
        columns = tuple(header.fields)
        missing = [c for c in wanted if c not in columns]
        if missing:
            raise UserError(
                f"{path}:1: wanted the columns {wanted} in the header, "
                f"found {list(columns)}"
            )
    at = {name: i for i, name in enumerate(columns)}
    known = {name: i for i, name in enumerate(task.labels)}
    examples = []
    for row in rows:
        texts = tuple(row.fields[at[c]] for c in task.texts)
        if problem := _empty(texts, task.texts):
            bad.report(row.where, problem)
            continue
        label = None
        if not is_test:
            label, problem = parse_label(
                row.fields[at[task.label]], task.head, known or None
            )
            if problem:
                bad.report(row.where, problem)
                continue
        guid = row.fields[0] if is_test else str(len(examples))
        examples.append(TextExample(guid, texts, label, row.where))
    return examples


def _empty(texts: tuple[str, ...], names: tuple[str, ...]) -> str | None:
    for text, name in zip(texts, names, strict=True):
        if not text.strip():
            return f"the column {name!r} is empty"
    return None


def submission_name(task: GlueTask, split: str) -> str:
    """File name of a test split's predictions, e.g. `MNLI-mm.tsv`."""
    return task.submission.get(split, task.name) + ".tsv"
