"""The nine GLUE tasks: official files, labels, metrics, submission names.

Columns are found by the header's names (MNLI's dev has more columns than its
train file); CoLA has no header. Test sets begin with an index, which becomes
the guid of the submission file; else rows are counted from 0. A submission wants
an answer for every id: rows of a test set whose text is empty, whose columns are
too few or whose bytes are no UTF-8 are predicted on what they hold and noted,
never left out.
"""

import dataclasses
import os

from common import files
from common.errors import UserError
from data.finetuning.examples import BadRows, TextExample, collect
from data.finetuning.tables import table_files as task_readers
from data.finetuning.tables.table_columns import KEY_NAMES

ENTAILMENT = ("contradiction", "entailment", "neutral")
TWO_WAY = ("entailment", "not_entailment")
BINARY = ("0", "1")


@dataclasses.dataclass(frozen=True)
class GlueTask:
    """One task."""

    name: str
    texts: tuple[str, ...]  # header names of the segments
    label: str  # header name of the label
    # class names in official order; empty for regression
    labels: tuple[str, ...]
    # names in `data.finetuning.metrics`; the first one picks checkpoints
    metrics: tuple[str, ...]
    # split name -> file stem; so is `test`
    dev: dict[str, str] = dataclasses.field(
        default_factory=lambda: {"dev": "dev"}
    )
    test: dict[str, str] = dataclasses.field(
        default_factory=lambda: {"test": "test"}
    )
    # split name -> file stem of the submission
    submission: dict[str, str] = dataclasses.field(default_factory=dict)
    # names for files without a header (None: read the header)
    columns: tuple[str, ...] | None = None
    # test split -> files of it below GLUE's own folder
    elsewhere: dict[str, tuple[str, ...]] = dataclasses.field(
        default_factory=dict
    )

    @property
    def head(self) -> str:
        """A key of `common.contract.schema.HEAD_FIELDS`."""
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
        test={
            "test": "test_matched",
            "test_mismatched": "test_mismatched",
            "ax": "AX",  # the diagnostic set, answered by MNLI's model
        },
        submission={
            "test": "MNLI-m",
            "test_mismatched": "MNLI-mm",
            "ax": "AX",
        },
        elsewhere={"ax": ("AX/AX.tsv", "diagnostic/diagnostic.tsv")},
    ),
    GlueTask("QNLI", ("question", "sentence"), "label", TWO_WAY, ("accuracy",)),
    GlueTask("RTE", PAIR, "label", TWO_WAY, ("accuracy",)),
    GlueTask("WNLI", PAIR, "label", BINARY, ("accuracy",)),
)
GLUE = {task.name.lower(): task for task in _TASKS}


def split_path(task: GlueTask, data_dir: str, split: str) -> str | None:
    """The file of `split`, in `data_dir` or in its folder of the task's name.

    Raises UserError: a train file that is not there.
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
    above = data_dir.rstrip("/")
    if not files.is_remote(above):  # "." has no name to take off
        above = os.path.abspath(above)
    for name in task.elsewhere.get(split, ()):
        for folder in (data_dir, os.path.dirname(above)):
            path = task_readers.find_file(folder, name)
            if path:
                return path
    if split == "train":
        task_readers.require_file(data_dir, f"{stem}.tsv")
    return None


def read_split(
    task: GlueTask, path: str, split: str, bad: BadRows
) -> list[TextExample]:
    """All rows of a split's file; labels only where they are known.

    Raises UserError as `BadRows`, or for a header without the wanted columns.
    """
    if split in task.test:
        return _read_test(task, path, bad)
    columns = task.columns
    rows = task_readers.read_tsv(path, bad, len(columns) if columns else None)
    if columns is None:
        columns = _header(path, next(rows, None), [*task.texts, task.label])
    at = {name: i for i, name in enumerate(columns)}
    known = {name: i for i, name in enumerate(task.labels)}

    def labelled():
        for row in rows:
            texts = tuple(row.fields[at[c]] for c in task.texts)
            label = row.fields[at[task.label]]
            yield row.where, texts, label, "", _empty(texts, task.texts)

    return collect(labelled(), bad, task.head, known or None)


def _header(
    path: str, header: task_readers.Row | None, wanted: list[str]
) -> tuple[str, ...]:
    if header is None:
        raise UserError(f"{path}:1: the file is empty, wanted a header")
    missing = [c for c in wanted if c not in header.fields]
    if missing:
        raise UserError(
            f"{path}:1: wanted the columns {wanted} in the header, "
            f"found {header.fields}"
        )
    return tuple(header.fields)


def _read_test(task: GlueTask, path: str, bad: BadRows) -> list[TextExample]:
    """Every row of a test set that has an id; its faults are only noted."""
    replace = lambda line: line.decode(errors="replace")  # noqa: E731
    lines = task_readers.read_lines(path, bad, replace)
    rows = (
        task_readers.Row(f"{path}:{number}", line.split("\t"))
        for number, line in lines
    )
    columns = _header(path, next(rows, None), list(task.texts))
    at = [columns.index(name) for name in task.texts]
    # MRPC's own test file begins with the label, a dev file with a text.
    has_ids = columns[0].lower() in KEY_NAMES
    examples = []
    for number, row in enumerate(rows):
        fields = row.fields
        guid = fields[0] if has_ids else str(number)
        if not guid.strip():
            bad.report(row.where, f"no id in the column {columns[0]!r}")
            continue
        texts = tuple(fields[i] if i < len(fields) else "" for i in at)
        problem = _empty(texts, task.texts)
        if len(fields) != len(columns):
            problem = f"wanted {len(columns)} columns, found {len(fields)}"
        elif "\ufffd" in "".join(texts):
            problem = "bytes that are no UTF-8 became U+FFFD"
        if problem:
            bad.note(row.where, problem)
        examples.append(TextExample(guid, texts, None, row.where))
    return examples


def _empty(texts: tuple[str, ...], names: tuple[str, ...]) -> str | None:
    for text, name in zip(texts, names, strict=True):
        if not text.strip():
            return f"the column {name!r} is empty"
    return None


def submission_name(task: GlueTask, split: str) -> str:
    """File name of a test split's predictions, e.g. `MNLI-mm.tsv`."""
    return task.submission.get(split, task.name) + ".tsv"
