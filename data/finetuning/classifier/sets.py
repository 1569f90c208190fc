"""Classification and regression tasks by name: files -> examples -> features.

A task is one small object; `run_classifier.py` needs nothing else of it:
`read(split)`, `table(examples, ...)` and `evaluate(...)`.
"""

import dataclasses
import os
import re
from collections.abc import Sequence
from decimal import Decimal

import numpy as np

from common import files, heads
from common.contract.symbols import CLS_LAST, SymbolIds
from common.contract.task_spec import TaskSpec
from common.errors import UserError
from data.finetuning import metrics
from data.finetuning.classifier import glue as glue_tasks
from data.finetuning.classifier import held_out
from data.finetuning.classifier import sources as classifier_sources
from data.finetuning.examples import BadRows, TextExample
from data.finetuning.features import pair_features
from data.finetuning.features import table as finetune_table
from data.finetuning.features.table import FeatureTable
from data.finetuning.options import (
    ALIASES,
    TABLES,
    TFDS_PREFIX,
    ClassifierDataOptions,
)
from data.finetuning.tables import table_columns
from data.finetuning.tables import table_files as task_readers
from data.finetuning.tables.table_columns import Columns

# CSV sets in the layout of Zhang et al.: classes, text columns and how their
# texts are escaped (a key of `classifier_sources.ESCAPES`).
TOPIC_SETS = {
    "yelp-2": (2, 1, "json"),
    "yelp-5": (5, 1, "json"),
    "dbpedia": (14, 2, "readme"),
    "ag": (4, 2, "bare"),
    "amazon-2": (2, 2, "readme"),
    "amazon-5": (5, 2, "readme"),
}
# Files `LABEL:fine text` by split; with other files these names mean a TSV.
TREC_SETS = ("trec", "trec-fine")
TREC_FILES = {
    "train": ("train_5500.label", "train.label"),
    "dev": ("dev.label", "TREC_10.label", "test.label"),
    "test": ("test.label", "TREC_10.label"),
}
# Found by an evaluation of several labels and kept in `data_options`.
THRESHOLD = "label_threshold"


def task_names() -> tuple[str, ...]:
    """All names that `--task_name` takes (any case)."""
    return (
        *glue_tasks.GLUE,
        "imdb",
        *TOPIC_SETS,
        *TREC_SETS,
        *TABLES,
        "tfds:NAME",
    )


@dataclasses.dataclass(frozen=True)
class ClassificationSet:
    """One task with its labels settled."""

    name: str
    head: str  # a key of `common.contract.schema.HEAD_FIELDS`
    labels: tuple[str, ...]  # class names in the order of the logits
    metric_names: tuple[str, ...]  # the first picks the best checkpoint
    options: ClassifierDataOptions

    @property
    def label_ids(self) -> dict[str, int]:
        """Class name -> logit."""
        return {name: i for i, name in enumerate(self.labels)}

    def eval_splits(self) -> tuple[str, ...]:
        """Labelled splits that are there to evaluate on."""
        glue = glue_tasks.GLUE.get(self.name)
        splits = tuple(glue.dev) if glue else ("dev",)
        return tuple(s for s in splits if self.path(s))

    def predict_splits(self) -> tuple[str, ...]:
        """Splits that are there to predict: the test sets, else dev."""
        if self.name.startswith(TFDS_PREFIX):
            return self.eval_splits()
        glue = glue_tasks.GLUE.get(self.name)
        splits = tuple(glue.test) if glue else ("test",)
        present = tuple(s for s in splits if self.path(s))
        return present or self.eval_splits()

    def path(self, split: str) -> str | None:
        """File or folder of a split; None where it is not there."""
        source = "train" if self._is_held_out(split) else split
        return _split_path(self.name, self.options.data_dir, source)

    def _is_held_out(self, split: str) -> bool:
        """The split is the share of the training file that is not trained."""
        return split == "dev" and self.options.dev_fraction > 0

    def columns(self, trained: TaskSpec | None = None) -> Columns:
        """Columns of the files (a trained model's own); none of no table."""
        glue = glue_tasks.GLUE.get(self.name)
        if glue:
            return Columns(glue.columns or (), glue.texts, glue.label)
        options = self.options
        if self.name in TABLES and trained is None:
            path = self.path("train")
            return table_columns.read_columns(path, options)
        names = trained.data_options.get("columns", ()) if trained else ()
        return Columns(tuple(names), options.text_columns, options.label_column)

    def of_training(self) -> "ClassificationSet":
        """The set with the training file's columns named, for all splits.

        Another file may have them in another order, or more texts.
        """
        if self.name not in TABLES:
            return self
        columns = self.columns()
        options = dataclasses.replace(
            self.options,
            text_columns=columns.texts,
            label_column=columns.label,
        )
        return dataclasses.replace(self, options=options)

    def read(
        self, split: str, bad: BadRows, with_labels: bool = True
    ) -> list[TextExample]:
        """Examples of a split, in file order.

        Raises UserError: the split is missing or empty, or see `BadRows`.
        """
        known = self.label_ids or None
        source = "train" if self._is_held_out(split) else split
        shared = bool(self.options.dev_fraction) and source == "train"
        # Rows are drawn by their place among the usable ones, and a row
        # without a usable label is none of these for a prediction either.
        examples = _read(
            self.name, self.options, source, bad, known, with_labels or shared
        )
        if shared:
            examples = held_out.share(
                examples, self.options, self.path("train"), split != "train"
            )
        if not examples:
            raise UserError(
                f"{self.path(split)} holds no usable row for {self.name}"
            )
        return examples

    def label_array(self, examples: Sequence[TextExample]) -> np.ndarray | None:
        """`label_ids` of the schema, or None when a label is unknown."""
        if any(e.label is None for e in examples):
            return None
        if self.head == "regression":
            return np.array([e.label for e in examples], np.float32)  # [N]
        index = self.label_ids
        if self.head == "classification":
            return np.array([index[e.label] for e in examples], np.int32)
        array = np.zeros((len(examples), len(self.labels)), np.float32)
        for row, example in enumerate(examples):
            for name in example.label:
                array[row, index[name]] = 1.0
        return array  # [N, Y]

    def table(
        self,
        examples: Sequence[TextExample],
        tokenized: Sequence[Sequence[Sequence[int]]],
        max_seq_length: int,
        ids: SymbolIds,
        layout: str = CLS_LAST,
    ) -> FeatureTable:
        """Features of examples whose texts are already token ids."""
        columns = {}
        labels = self.label_array(examples)
        if labels is not None:
            columns["label_ids"] = labels
        sequences = [
            pair_features.join_segments(
                pair_features.without_blank(parts), max_seq_length, ids, layout
            )
            for parts in tokenized
        ]
        return finetune_table.from_sequences(
            sequences, columns, **pair_features.padding(layout)
        )

    def evaluate(
        self,
        logits: np.ndarray,
        labels: np.ndarray,
        threshold: float | None = None,
    ) -> dict[str, float]:
        """The task's metrics, logits `[N, Y]` in input order.

        Where a threshold of several labels was given or found, the metrics with
        it are named `best_...`.
        """
        if self.head == "regression":
            return metrics.regression_metrics(logits, labels)
        if self.head == "multi_label":
            result = metrics.multi_label_metrics(logits, labels)
            if threshold is not None:
                values = metrics.multi_label_metrics(logits, labels, threshold)
                result |= {f"best_{k}": v for k, v in values.items()}
                result[THRESHOLD] = threshold
            return result
        result = metrics.classification_metrics(
            logits, labels, self.metric_names
        )
        if self.name == "imdb" or self.name in TOPIC_SETS:
            # Table 3 of the paper has these sets' errors, in per cent. Less is
            # better: no checkpoint can be picked by it.
            result["error_rate"] = 100.0 * (1.0 - result["accuracy"])
        return result

    @property
    def possible_metrics(self) -> tuple[str, ...]:
        """What `evaluate` can give; one that `metric_names` lacks is added by
        `with_metric`."""
        if self.head == "regression":
            return ("pearson", "spearman", "mse")
        if self.head == "multi_label":
            names = ("micro_f1", "macro_f1", "exact_match")
            return (*names, *(f"best_{n}" for n in names))
        binary = ("f1",) if len(self.labels) == 2 else ()
        return ("accuracy", "macro_f1", "matthews", *binary)

    def with_metric(self, name: str) -> "ClassificationSet":
        """The task with one more metric, where it has not got it."""
        known = name in self.metric_names or name not in self.possible_metrics
        if self.head != "classification" or known:
            return self
        return dataclasses.replace(
            self, metric_names=(*self.metric_names, name)
        )

    @property
    def main_metric(self) -> str:
        """The one that picks the best checkpoint; larger is better."""
        if self.head == "multi_label":
            return heads.get(self.head).metric
        return self.metric_names[0]


def open_set(options: ClassifierDataOptions) -> ClassificationSet:
    """Looks the name up and settles the labels; UserError where it cannot."""
    name = canonical_name(options.task_name)
    if name == "trec" and _has(options.data_dir, "tsv"):
        name = "tsv"  # the set as a table with a header
    _check_head(name, options.head)
    _check_dev_fraction(name, options)
    if glue := glue_tasks.GLUE.get(name):
        return ClassificationSet(
            name, glue.head, glue.labels, glue.metrics, options
        )
    head, metric_names = "classification", ("accuracy",)
    if name == "imdb":
        labels: tuple[str, ...] = ("neg", "pos")
    elif name in TOPIC_SETS:
        labels = tuple(str(i + 1) for i in range(TOPIC_SETS[name][0]))
    elif options.head == "regression":
        head, labels, metric_names = options.head, (), ("pearson", "spearman")
    else:
        head, labels = options.head, _labels(name, options)
        metric_names = ("accuracy", "macro_f1")
    return ClassificationSet(name, head, labels, metric_names, options)


def _check_head(name: str, head: str) -> None:
    """Raises UserError where a set has another head than the one asked for.

    Tables have any; "classification" is what nobody asked for.
    """
    if name in TABLES or name.startswith(TFDS_PREFIX):
        return
    glue = glue_tasks.GLUE.get(name)
    own = glue.head if glue else "classification"
    if head not in ("classification", own):
        raise UserError(
            f"--task_name={name} is {own}, not {head}: leave out --multi_label "
            "and --is_regression, or give a table (tsv, csv, jsonl)"
        )


def _check_dev_fraction(name: str, options: ClassifierDataOptions) -> None:
    if not options.dev_fraction:
        return
    if name in glue_tasks.GLUE or name.startswith(TFDS_PREFIX):
        raise UserError(f"--dev_fraction: {name} has a dev split of its own")
    path = _split_path(name, options.data_dir, "dev")
    if path:
        raise UserError(
            f"--dev_fraction={options.dev_fraction}, but there is {path}: "
            "leave the flag out or move the file away"
        )


def canonical_name(name: str) -> str:
    """Lower case, aliases resolved; raises UserError for no such task."""
    if name.lower().startswith(TFDS_PREFIX):
        return TFDS_PREFIX + name[len(TFDS_PREFIX) :]
    lower = name.lower()
    lower = ALIASES.get(lower, lower)
    if lower not in task_names():
        raise UserError(
            f"unknown --task_name {name!r}; there are {', '.join(task_names())}"
        )
    return lower


def _labels(name: str, options: ClassifierDataOptions) -> tuple[str, ...]:
    """Given class names, or those of the training file: sorted, as numbers
    where all of them are."""
    if options.labels:
        return options.labels
    names, bad = set(), BadRows(True)
    for example in _read(name, options, "train", bad, None, True):
        label = example.label
        names.update(label if isinstance(label, tuple) else (label,))
    if not names:
        raise UserError(
            f"{_split_path(name, options.data_dir, 'train')} has no labels "
            f"({bad.shown[0] if bad.shown else 'all are empty'}); correct the "
            "rows or check --label_column"
        )
    numeric = all(re.fullmatch(r"-?\d+(\.\d+)?", n) for n in names)
    return tuple(
        sorted(names, key=(lambda n: (Decimal(n), n)) if numeric else None)
    )


def _has(data_dir: str, name: str) -> bool:
    """Whether a split is there as a table with that ending."""
    return any(
        task_readers.find_file(data_dir, f"{split}.{name}")
        for split in ("train", "dev", "test")
    )


def lacks_labels(options: ClassifierDataOptions) -> bool:
    """Whether neither a flag nor a training file names a table's classes."""
    name = canonical_name(options.task_name)
    if options.labels or name not in TABLES:
        return False
    names = _table_names(name, "train")
    return not task_readers.find_file(options.data_dir, *names)


def _table_names(name: str, split: str) -> tuple[str, ...]:
    endings = ("jsonl", "json") if name == "jsonl" else (name,)
    return tuple(f"{split}.{ending}" for ending in endings)


def _split_path(name: str, data_dir: str, split: str) -> str | None:
    if name in glue_tasks.GLUE:
        return glue_tasks.split_path(glue_tasks.GLUE[name], data_dir, split)
    if name == "imdb":
        folder = os.path.join(data_dir, "test" if split == "dev" else split)
        return folder if files.is_folder(folder) else None
    if name in TOPIC_SETS:
        stems = {"train": ("train.csv",), "dev": ("dev.csv", "test.csv")}
        names = stems.get(split, (f"{split}.csv",))
    elif name in TREC_SETS:
        names = TREC_FILES.get(split, (f"{split}.label",))
    elif name.startswith(TFDS_PREFIX):
        return f"{name}/{split}"
    else:
        names = _table_names(name, split)
    if split == "train":
        return task_readers.require_file(data_dir, *names)
    return task_readers.find_file(data_dir, *names)


def _read(name, options, split, bad, known, with_labels):
    path = _split_path(name, options.data_dir, split)
    if path is None:
        raise UserError(f"`{options.data_dir}` has no {split} split of {name}")
    if name in glue_tasks.GLUE:
        glue = glue_tasks.GLUE[name]
        return glue_tasks.read_split(glue, path, split, bad)
    if name == "imdb":
        return classifier_sources.read_imdb(path, bad)
    if name in TOPIC_SETS:
        classes, fields, escapes = TOPIC_SETS[name]
        numbers = {str(i + 1): i for i in range(classes)}
        return classifier_sources.read_topic_csv(
            path, numbers, bad, fields, escapes
        )
    if name in TREC_SETS:
        return classifier_sources.read_trec(
            path, bad, known, name == "trec-fine", with_labels
        )
    if name.startswith(TFDS_PREFIX):
        return classifier_sources.read_tfds(
            name.removeprefix(TFDS_PREFIX), split, options, bad, known
        )
    return classifier_sources.read_table(path, options, bad, known, with_labels)
