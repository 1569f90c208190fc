"""Classification and regression: a label or a number per row of texts."""

import dataclasses
import itertools
import os
from collections.abc import Sequence

import numpy as np

from common import figures, files
from common.contract.symbols import row_symbols
from common.contract.task_spec import TaskSpec
from common.errors import UserError
from data.finetuning import examples as task_examples
from data.finetuning import metrics as task_metrics
from data.finetuning import task_settings
from data.finetuning.classifier import glue as glue_tasks
from data.finetuning.classifier import reports
from data.finetuning.classifier import sets as classifier_sets
from data.finetuning.classifier.sets import THRESHOLD
from data.finetuning.examples import BadRows, TextExample
from data.finetuning.features import cache as finetune_cache
from data.finetuning.options import TABLES, TFDS_PREFIX, ClassifierDataOptions
from data.finetuning.task import EVAL, PREDICT, TRAIN, Outputs, Split, Task

# Splits, by the names of `--eval_split`, that a threshold may be found on.
DEV_SPLITS = ("dev", "validation")


class ClassifierTask(Task):
    """A set's files -> features -> logits, written by class."""

    data: ClassifierDataOptions

    def __init__(self, data: ClassifierDataOptions, *arguments):
        super().__init__(data, *arguments)
        options = self.options
        known = None if options.do_train else self.trained
        if known and task_settings.unnamed(known.labels):
            data = with_labels(data, known.labels, options.do_eval)
        self.set = classifier_sets.open_set(data)
        if options.do_train:
            self.set = self.set.of_training()
        if known:
            check_trained(self.set.name, known)
            check_count(self.set, known)
        if self.set.head == "classification" and len(self.set.labels) < 2:
            raise UserError(
                f"the training file has {len(self.set.labels)} class, wanted "
                "at least 2; check --label_column"
            )
        self.set = self.set.with_metric(options.best_metric)
        self.num_texts, self._any_texts = 1, not known
        # Of several labels: kept in the folder, then found by an evaluation.
        self.threshold = data.label_threshold
        # What task.json says beside the flag: a flag is of one run.
        self._kept: dict = {}
        several = self.set.head == "multi_label"
        if several:
            if line := ambiguous(self.set.labels, data.label_separator):
                print(line)
            chosen = data.eval_split
            dev = chosen if chosen in DEV_SPLITS else DEV_SPLITS[0]
            self.find_dev_data(self.set.path(dev))
            if self.dev_data:
                self._kept[task_settings.DEV_DATA] = self.dev_data
        if known:
            threshold = known.data_options.get(THRESHOLD)
            if several and threshold is not None:
                self._kept[THRESHOLD] = threshold
                if self.threshold is None:
                    self.threshold = threshold
            self.num_texts = int(known.data_options.get("num_texts", 1))
            # Who released a model does not say it.
            self._any_texts = bool(known.data_options.get("released"))

    def eval_names(self):
        chosen = self.data.eval_split
        return (chosen,) if chosen else self.set.eval_splits()

    def predict_names(self):
        return self.set.predict_splits()

    def read(self, name: str, use: str) -> Split:
        key = self.loaded_key(name, use)
        if key not in self._loaded:
            bad = BadRows(self.features.skip_bad_rows)
            examples = self.set.read(name, bad, use != PREDICT)
            if use == TRAIN:
                examples = self.training_part(examples)
            self._loaded[key] = self.with_features(name, examples, bad)
            if use == TRAIN:
                self._say_labels(examples)
        split = self._loaded[key]
        return self._judged(split) if use == EVAL else split

    def _say_labels(self, examples: Sequence[TextExample]) -> None:
        """Says what the classes are: a wrong cell of a table makes one."""
        if self.set.head != "regression":
            parts = (e.label for e in examples)
            found = (p if isinstance(p, tuple) else (p,) for p in parts)
            flat = itertools.chain.from_iterable(found)
            print(task_examples.describe_labels(self.set.labels, flat))

    def _judged(self, split: Split) -> Split:
        """The labelled split; settles whether it finds the threshold."""
        if self.set.label_array(split.examples) is None:
            raise UserError(f"the split {split.name!r} has no labels")
        threshold = self.data.label_threshold
        if self.set.head != "multi_label" or threshold is not None:
            return split
        path = self.set.path(split.name)
        if split.name in DEV_SPLITS and self.finds_threshold_on(path):
            return Split(split.name, split.examples, split.table, None, True)
        self.say_judged(path, "0.5")
        return split

    def with_features(
        self, name: str, examples: list[TextExample], bad: BadRows
    ) -> Split:
        """A split of what was read; says what it holds."""
        path = self.set.path(name)
        most = max(len(e.texts) for e in examples)
        if not self._any_texts and most != self.num_texts:
            raise UserError(
                f"{path}: wanted {self.num_texts} texts per "
                f"row, as the model was trained with, found {most}; "
                "name them with --text_columns"
            )
        self.num_texts = most
        least = row_symbols(self.features.layout, self.num_texts) + 1
        if self.features.row_length < least:
            raise UserError(
                f"--max_seq_length must be at least {least} for "
                f"{self.num_texts} texts per row"
            )
        key = {
            "task": self.set.name,
            "data": hash_examples(examples),
            "labels": list(self.set.labels),
        }
        table, hit = self.cached_table(
            f"{self.set.name}-{name}".replace(":", "-").replace("/", "-"),
            key,
            [e.texts for e in examples],
            lambda tokenized: self.set.table(
                examples,
                tokenized,
                self.features.row_length,
                self.tokenizer.symbols,
                self.features.layout,
            ),
        )
        what = f"{self.set.name} {name}: {len(examples)} examples of {path}"
        self.say_read(what, table, hit, bad)
        return Split(name, examples, table)

    @property
    def main_metric(self):
        return self.set.main_metric

    @property
    def metric_names(self):
        return self.set.possible_metrics

    @property
    def label_threshold(self) -> float:
        """Of several labels, as far as one is known."""
        return 0.5 if self.threshold is None else self.threshold

    def settled(self, split: Split, logits: np.ndarray) -> np.ndarray:
        """What the model says, as logits of the examples."""
        return logits

    def metrics(self, split: Split, outputs: Outputs, labels: Outputs):
        gold = labels.get("label_ids")
        return self._evaluate(split, outputs, gold)

    def part_metrics(self, split: Split, outputs: Outputs, part: np.ndarray):
        return self._evaluate(split, outputs, None, part)

    def _evaluate(self, split, outputs, gold=None, part=slice(None)):
        if gold is None:
            gold = self.set.label_array(split.examples)
        logits = self.settled(split, outputs["logits"])
        threshold = self.label_threshold
        if split.finds_threshold:
            threshold = task_metrics.best_label_threshold(logits, gold)
        return self.set.evaluate(logits[part], gold[part], threshold)

    def calibrate(self, split: Split, outputs: Outputs, labels: Outputs):
        self.threshold = task_metrics.best_label_threshold(
            outputs["logits"], labels["label_ids"]
        )
        return {THRESHOLD: self.threshold}

    def lengths(self, split: Split) -> np.ndarray:
        return np.array([sum(map(len, e.texts)) for e in split.examples])

    def write(self, split: Split, outputs: Outputs, folder: str) -> list[str]:
        logits = self.settled(split, outputs["logits"])
        path = task_examples.write_tsv(
            os.path.join(folder, f"{split.name}_predictions.tsv"),
            self._predicted(split, logits),
        )
        glue = glue_tasks.GLUE.get(self.set.name)
        if not glue or split.name not in glue.test:
            return [path]
        name = glue_tasks.submission_name(glue, split.name)
        rows = reports.submission_rows(self.set, split.examples, logits)
        sent = task_examples.write_tsv(os.path.join(folder, name), rows)
        return [path, sent]

    def _predicted(self, split: Split, logits) -> list[list[str]]:
        return reports.prediction_rows(
            self.set, split.examples, logits, self.label_threshold
        )

    def write_report(self, split: Split, outputs: Outputs, folder: str):
        logits = self.settled(split, outputs["logits"])
        rows = reports.labelled_rows(
            self.set, split.examples, self._predicted(split, logits)
        )
        path = os.path.join(folder, f"{split.name}_examples.tsv")
        task_examples.write_tsv(path, rows)
        if self.set.head == "regression":
            return [path]
        stem = os.path.join(folder, split.name)
        labels = self.set.label_array(split.examples)
        return [path, *self._write_classes(stem, logits, labels)]

    def _write_classes(self, stem: str, logits, labels) -> list[str]:
        """Precision and recall by class; what is taken for what."""
        names = self.set.labels
        if self.set.head == "multi_label":
            shares = task_metrics.sigmoid(logits)
            guesses = (shares > self.label_threshold).astype(int)
            matrix = reports.label_counts(labels, guesses)
            columns = reports.COUNTED
            rows = reports.table(matrix, names, columns)
            wrong = matrix[:, 1] + matrix[:, 2]
            most = np.argsort(-wrong, kind="stable")[: reports.MOST_CLASSES]
            most = np.sort(most)
            matrix, shown = matrix[most], [names[i] for i in most]
        else:
            guesses = np.argmax(logits, axis=-1)
            rows, matrix, shown = reports.confusion(labels, guesses, names)
            columns = shown
        text = reports.class_report(labels, guesses, names)
        if line := figures.note(shown):
            print(line)
        ends = ("report.txt", "confusion.tsv", "confusion.png")
        paths = [f"{stem}_{end}" for end in ends]
        files.write_text(paths[0], text)
        task_examples.write_tsv(paths[1], rows)
        with files.atomic_open(paths[2]) as f:
            f.write(reports.picture(matrix, shown, columns))
        return paths

    def spec(self) -> TaskSpec:
        head_options = {}
        if self.set.head != "regression":
            head_options["num_labels"] = len(self.set.labels)
        known = None if self.options.do_train else self.trained
        columns = self.set.columns(known)
        return self.make_spec(
            task_settings.CLASSIFIER,
            task_name=self.set.name,
            head=self.set.head,
            labels=self.set.labels,
            head_options=head_options,
            data_options={
                "num_texts": self.num_texts,
                "columns": columns.names,
            }
            | self._kept,
            text_columns=columns.texts,
            label_column=columns.label,
        )

    def export_options(self) -> dict:
        """The threshold that was given: the export's, not the folder's."""
        threshold = self.data.label_threshold
        return {} if threshold is None else {THRESHOLD: threshold}

    def digest(self, split: Split) -> str:
        return hash_examples(split.examples)

    def must_match(self) -> dict:
        return super().must_match() | {"task": self.set.name}


def ambiguous(labels: Sequence[str], separator: str) -> str:
    """A line about the first label that holds the separator, or ""."""
    for label in labels:
        if separator in label:
            return (
                f"note: the label {label!r} holds --label_separator="
                f"{separator!r}, which predictions and exports write between "
                "labels: train with another one to tell them apart"
            )
    return ""


def with_labels(
    data: ClassifierDataOptions, labels: tuple[str, ...], evaluates: bool
) -> ClassifierDataOptions:
    """The options with a model's labels, which stand for none.

    A training file names them, as --labels does. Raises UserError: nothing
    does, and rows with labels are to be judged.
    """
    if not classifier_sets.lacks_labels(data):
        return data
    if evaluates:
        task_settings.refuse_unnamed(labels)
    return dataclasses.replace(data, labels=labels)


def check_count(
    kind: classifier_sets.ClassificationSet, trained: TaskSpec
) -> None:
    """Raises UserError where names are not as many as a model's without any.

    Other labels than a model's own are refused elsewhere.
    """
    labels, head = kind.labels, kind.head
    if head != trained.head or not task_settings.unnamed(trained.labels):
        return
    if len(labels) != len(trained.labels):
        raise UserError(
            f"--labels: wanted {len(trained.labels)} names, one for each class "
            f"of the model in the order of the logits, found {len(labels)}: "
            f"{', '.join(labels[:20])}"
        )


def check_trained(name: str, trained: TaskSpec) -> None:
    """Raises UserError where a model is asked another official task."""
    free = (*TABLES, trained.task_name)
    if name in free or trained.task_name in TABLES:
        return
    if name.startswith(TFDS_PREFIX):
        return
    raise UserError(
        f"--task_name={name}: the model was trained for {trained.task_name}; "
        "leave the flag out, or give a table of its labels (tsv, csv, jsonl)"
    )


def hash_examples(examples: list[TextExample]) -> str:
    """Hash of texts and labels, not of where they stand."""
    return finetune_cache.hash_texts((e.texts, e.label) for e in examples)
