"""Classification and regression as a job: splits, metrics, predictions."""

import os

import numpy as np

from common import figures, files
from common.errors import UserError
from data.finetuning import cache as finetune_cache
from data.finetuning import examples as task_examples
from data.finetuning import metrics as task_metrics
from data.finetuning import task_settings
from data.finetuning.classifier import glue as glue_tasks
from data.finetuning.classifier import predictions, reports
from data.finetuning.classifier import tasks as classifier_tasks
from data.finetuning.classifier.tasks import ClassificationTask
from data.finetuning.examples import BadRows, TextExample
from data.finetuning.options import ClassifierDataOptions, FeatureOptions
from data.finetuning.table import FeatureTable
from data.task_spec import TaskSpec
from training.finetuning.job import EvalSplit, PredictSplit, TaskJob

# Splits, by the names of `--eval_split`, that a threshold may be found on.
DEV_SPLITS = ("dev", "validation")


class ClassifierJob(TaskJob):
    """Turns a classification task into a `training.finetuning.run.Job`.

    Args:
      data_options: which task and files.
      features: how text becomes features.
      options: what will be done; only those splits are read.
      trained: task.json of the trained model.
    """

    # What `--ranking` adds to what a resumed run may not change, and columns
    # that its model reads.
    ranking: dict = {}
    inputs: tuple[str, ...] = ()

    def __init__(
        self,
        data_options: ClassifierDataOptions,
        features: FeatureOptions,
        options,
        trained: TaskSpec | None = None,
    ):
        super().__init__(features, options)
        self.trained = None if options.do_train else trained
        self.task: ClassificationTask = classifier_tasks.build_task(
            data_options
        )
        if self.trained:
            check_trained(self.task.name, self.trained)
        if self.task.head == "classification" and len(self.task.labels) < 2:
            raise UserError(
                f"the training file has {len(self.task.labels)} class, wanted "
                "at least 2; check --label_column"
            )
        self.task = self.task.with_metric(options.best_metric)
        self.train_hash = ""
        self.num_texts, self.any_texts = 1, not self.trained
        # Of several labels: kept in the folder, then found by an evaluation.
        self.threshold = data_options.label_threshold
        # What task.json says beside the flag: a flag is of one run.
        self.kept: dict = {}
        if self.task.head == "multi_label":
            self.find_dev_data(self.task.path(self._dev_split()), trained)
            if self.dev_data:
                self.kept[task_settings.DEV_DATA] = self.dev_data
        if self.trained:
            found = self.trained.data_options.get(classifier_tasks.THRESHOLD)
            if self.task.head == "multi_label" and found is not None:
                self.kept[classifier_tasks.THRESHOLD] = found
                if self.threshold is None:
                    self.threshold = found
            known = self.trained.data_options
            self.num_texts = int(known.get("num_texts", 1))
            # Who released a model does not say it.
            self.any_texts = bool(known.get("released"))

    def _dev_split(self) -> str:
        """The split that a threshold may be found on."""
        chosen = self.task.options.eval_split
        return chosen if chosen in DEV_SPLITS else DEV_SPLITS[0]

    def build(self):
        """Reads and tokenizes the splits that are needed."""
        options, task = self.options, self.task
        train_input_fn, table = None, None
        evals: dict = {}
        predicts: dict = {}
        if options.do_train:
            examples, table = self.load_training()
            self.train_hash = hash_examples(examples)
            train_input_fn = self.input_fn(table, True)
        if options.do_eval or options.run.eval_every:
            chosen = task.options.eval_split
            for split in (chosen,) if chosen else task.eval_splits():
                evals[split] = self.eval_split(split)
        if options.do_predict:
            for split in task.predict_splits():
                predicts[split] = self.predict_split(split)
        return self.make_job(
            task.main_metric,
            train_input_fn,
            evals,
            predicts,
            {"task": task.name, "train_data": self.train_hash} | self.ranking,
            self.export_options(),
            table,
            task.possible_metrics,
        )

    def load_training(self) -> tuple[list[TextExample], FeatureTable]:
        """Examples and features of the training split."""
        return self.load("train")

    def settled(
        self, examples: list[TextExample], logits: np.ndarray
    ) -> np.ndarray:
        """What the model says, as logits of the examples."""
        del examples
        return logits

    def export_options(self) -> dict:
        """The threshold that was given: the export's, not the folder's."""
        given = self.task.options.label_threshold
        return {} if given is None else {classifier_tasks.THRESHOLD: given}

    def spec(self) -> TaskSpec:
        """task.json of this task."""
        task, options = self.task, self.options
        head_options = {}
        if task.head != "regression":
            head_options["num_labels"] = len(task.labels)
        columns = task.columns(self.trained)
        return task_settings.make_spec(
            task_settings.CLASSIFIER,
            (self.features, options, task.options),
            task_name=task.name,
            head=task.head,
            text=self.tokenizer.settings,
            spiece_sha256=self.tokenizer.sha256,
            labels=task.labels,
            head_options=head_options,
            data_options={
                "num_texts": self.num_texts,
                "columns": columns.names,
            }
            | self.kept,
            text_columns=columns.texts,
            label_column=columns.label,
        )

    def load(
        self, split: str, with_labels: bool = True
    ) -> tuple[list[TextExample], FeatureTable]:
        """Examples and features of a split; says what was read."""
        if split in self.loaded:
            return self.loaded[split]
        bad = BadRows(self.features.skip_bad_rows)
        examples = self.task.read(split, bad, with_labels)
        if split == "train":
            examples = self.training_part(examples)
        counts = {len(e.texts) for e in examples}
        if not self.any_texts and max(counts) != self.num_texts:
            raise UserError(
                f"{self.task.path(split)}: wanted {self.num_texts} texts per "
                f"row, as the model was trained with, found {max(counts)}; "
                "name them with --text_columns"
            )
        self.num_texts = max(counts)
        if self.features.row_length < self.num_texts + 2:
            raise UserError(
                f"--max_seq_length must be at least {self.num_texts + 2} for "
                f"{self.num_texts} texts per row"
            )
        name = f"{self.task.name}-{split}".replace(":", "-").replace("/", "-")
        key = {
            "task": self.task.name,
            "data": hash_examples(examples),
            "labels": list(self.task.labels),
        }
        table, hit = self.cached_table(
            name,
            key,
            [e.texts for e in examples],
            lambda tokenized: self.task.table(
                examples,
                tokenized,
                self.features.row_length,
                self.tokenizer.symbols,
                self.features.layout,
            ),
        )
        what = (
            f"{self.task.name} {split}: {len(examples)} examples of "
            f"{self.task.path(split)}"
        )
        self.report(what, table, hit, bad)
        self.loaded[split] = examples, table
        return examples, table

    def eval_split(self, split: str):
        """A labelled split with the task's metrics."""
        examples, table = self.load(split)
        gold = self.task.label_array(examples)
        if gold is None:
            raise UserError(f"the split {split!r} has no labels")

        finds = False
        if (
            self.task.head == "multi_label"
            and self.task.options.label_threshold is None
        ):
            path = self.task.path(split)
            finds = split in DEV_SPLITS and self.finds_threshold(path)
            if not finds:
                self.say_judged(path, "0.5")

        def scores(outputs, labels, part=slice(None)) -> dict[str, float]:
            logits = self.settled(examples, outputs["logits"])
            threshold = self.label_threshold
            if finds:
                threshold = task_metrics.best_label_threshold(logits, labels)
            return self.task.evaluate(logits[part], labels[part], threshold)

        def metrics(outputs, labels) -> dict[str, float]:
            return scores(outputs, labels.get("label_ids", gold))

        def calibrate(outputs, labels) -> dict:
            self.threshold = task_metrics.best_label_threshold(
                outputs["logits"], labels["label_ids"]
            )
            return {classifier_tasks.THRESHOLD: self.threshold}

        def write(outputs, folder: str) -> list[str]:
            logits = self.settled(examples, outputs["logits"])
            rows = predictions.labelled_rows(
                self.task, examples, self._predicted(examples, logits)
            )
            path = os.path.join(folder, f"{split}_examples.tsv")
            files.write_text(path, task_examples.to_tsv(rows))
            if self.task.head == "regression":
                return [path]
            return [path, *self._write_report(split, logits, gold, folder)]

        return EvalSplit(
            self.input_fn(table, False),
            metrics,
            write,
            calibrate if finds else None,
            lengths=np.array([sum(map(len, e.texts)) for e in examples]),
            part_metrics=lambda outputs, part: scores(outputs, gold, part),
        )

    @property
    def label_threshold(self) -> float:
        """Of several labels, as far as one is known."""
        return 0.5 if self.threshold is None else self.threshold

    def _predicted(self, examples, logits) -> list[list[str]]:
        """Rows of predictions, with the threshold that is known."""
        return predictions.prediction_rows(
            self.task, examples, logits, self.label_threshold
        )

    def _write_report(self, split, logits, labels, folder) -> list[str]:
        """Precision and recall by class; what is taken for what."""
        names = self.task.labels
        if self.task.head == "multi_label":
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
        if not figures.font_for(shown):
            print("note: no installed font has all characters of the labels")
        stem = os.path.join(folder, split)
        paths = [
            f"{stem}_report.txt",
            f"{stem}_confusion.tsv",
            f"{stem}_confusion.png",
        ]
        files.write_text(paths[0], text)
        files.write_text(paths[1], task_examples.to_tsv(rows))
        with files.atomic_open(paths[2]) as f:
            f.write(reports.picture(matrix, shown, columns))
        return paths

    def predict_split(self, split: str):
        """A split to predict, with its writers."""
        examples, table = self.load(split, with_labels=False)

        def write(outputs, folder: str) -> list[str]:
            logits = self.settled(examples, outputs["logits"])
            rows = self._predicted(examples, logits)
            path = os.path.join(folder, f"{split}_predictions.tsv")
            files.write_text(path, task_examples.to_tsv(rows))
            paths = [path]
            glue = glue_tasks.GLUE.get(self.task.name)
            if glue and split in glue.test:
                name = glue_tasks.submission_name(glue, split)
                paths.append(os.path.join(folder, name))
                rows = predictions.submission_rows(self.task, examples, logits)
                files.write_text(paths[-1], task_examples.to_tsv(rows))
            return paths

        return PredictSplit(self.input_fn(table, False, self.inputs), write)


def check_trained(name: str, trained: TaskSpec) -> None:
    """A trained model reads its own task, or a table of the user's.

    Args:
      name: canonical, of the task that is asked for.
      trained: task.json of the model.

    Raises:
      UserError: it is another official task.
    """
    free = (*classifier_tasks.GENERIC, trained.task_name)
    if name in free or trained.task_name in classifier_tasks.GENERIC:
        return
    if name.startswith(classifier_tasks.TFDS_PREFIX):
        return
    raise UserError(
        f"--task_name={name}: the model was trained for {trained.task_name}; "
        "leave the flag out, or give a table of its labels (tsv, csv, jsonl)"
    )


def hash_examples(examples: list[TextExample]) -> str:
    """Hash of texts and labels, not of where they stand."""
    return finetune_cache.hash_texts((e.texts, e.label) for e in examples)
