"""Tagging as a job: windows, labels per token or span, seqeval's scores."""

import os

import numpy as np

from common import files
from common.errors import UserError
from data.finetuning import task_settings
from data.finetuning.examples import BadRows
from data.finetuning.options import FeatureOptions, TaggingDataOptions
from data.finetuning.tagging import ensembles as tagging_ensembles
from data.finetuning.tagging import examples as tagging_examples
from data.finetuning.tagging import features as tagging_features
from data.finetuning.tagging import metrics as tagging_metrics
from data.finetuning.tagging import task as tagging_task
from data.finetuning.tagging.examples import DEV, TEST, TRAIN, TaggedText
from data.finetuning.tagging.features import TaggingWindows, build_windows
from data.task_spec import TaskSpec
from training.finetuning.job import EvalSplit, PredictSplit, TaskJob


class TaggingJob(TaskJob):
    """Turns tagged files into a `training.finetuning.run.Job`.

    Args:
      data_options: files, columns, tags.
      features: how text becomes features.
      options: what will be done; only those files are read.
      trained: task.json of the trained model.
    """

    def __init__(
        self,
        data_options: TaggingDataOptions,
        features: FeatureOptions,
        options,
        trained: TaskSpec | None = None,
    ):
        super().__init__(features, options)
        self.data_options, self.trained = data_options, trained
        self.labels = data_options.labels
        if not self.labels and trained is not None:
            self.labels = trained.labels
        self.baseline: tagging_metrics.MajorityBaseline | None = None
        if features.static_shapes:
            # Logits are as long as their batch: one program has one length.
            self.buckets = (features.row_length,)

    def build(self):
        """Reads and tokenizes the files that are needed."""
        options = self.options
        train_input_fn, train_hash, table = None, "", None
        evals: dict = {}
        predicts: dict = {}
        if options.do_train:
            examples, windows = self.load(TRAIN)
            train_hash = tagging_task.hash_examples(examples)
            table = windows.table
            train_input_fn = self.input_fn(table, True)
        if not self.labels:
            raise UserError(
                "the tags are not known: give --labels, or the --model_dir of "
                "a trained model"
            )
        if options.do_eval or options.run.eval_every:
            evals[DEV] = self.eval_split(DEV)
        if options.do_predict:
            predicts[TEST] = self.predict_split(TEST)
        return self.make_job(
            "f1" if self.chunks else "accuracy",
            train_input_fn,
            evals,
            predicts,
            {"task": "tagger", "train_data": train_hash}
            | {"doc_stride": self.data_options.doc_stride},
            train_table=table,
            metric_names=tagging_metrics.names(self.chunks),
        )

    def combine(self, members, weights):
        """Answers of several models by token or by part of the text."""
        said = [member["member"] for member in members]
        if len(said) == 1:
            return members[0]
        answers = tagging_ensembles.combine(said, weights, self.labels)
        return {"answers": answers}

    def collector(self, examples, windows: TaggingWindows):
        """Logits of windows -> of pieces: members may have other windows."""

        def collect(outputs):
            logits = outputs["logits"]
            scores = tagging_features.piece_scores(windows, logits)
            answers = tagging_task.answer_pieces(
                examples, windows.pieces, scores, self.labels
            )
            member = tagging_ensembles.Member(
                examples, windows.pieces, scores, answers
            )
            return {"answers": answers, "member": member}

        return collect

    def answers(self, examples, windows, outputs) -> tagging_task.Answers:
        """What a model's outputs say, or an ensemble's answers."""
        if "answers" in outputs:
            return outputs["answers"]
        return tagging_task.answer(
            examples, windows, outputs["logits"], self.labels
        )

    @property
    def chunks(self) -> bool:
        """Tags name chunks (B-, I-), which are counted whole."""
        return tagging_metrics.names_chunks(self.labels)

    def spec(self) -> TaskSpec:
        """task.json of this task."""
        return task_settings.make_spec(
            task_settings.TAGGER,
            (self.features, self.options, self.data_options),
            task_name="tagging",
            head=tagging_task.HEAD,
            labels=self.labels,
            head_options={"num_labels": len(self.labels)}
            | self.kept_head_options(self.trained),
            text=self.tokenizer.settings,
            spiece_sha256=self.tokenizer.sha256,
        )

    def path(self, split: str) -> str:
        """The file of a split.

        Raises:
          UserError: there is none; says what was looked for.
        """
        flag = {TRAIN: "train_file", DEV: "eval_file", TEST: "predict_file"}
        named = getattr(self.data_options, flag[split])
        if named:
            return named
        folder = self.data_options.data_dir
        found = tagging_examples.find_split(folder, split) if folder else None
        if found is None and split == TEST and folder:
            found = tagging_examples.find_split(folder, DEV)
        if found is None:
            raise UserError(
                f"no {split} file: give --{flag[split]}"
                + (
                    f", or put {split}.conll or {split}.jsonl into {folder}"
                    if folder
                    else " or --data_dir"
                )
            )
        return found

    def load(self, split: str) -> tuple[list[TaggedText], TaggingWindows]:
        """Texts and windows of a split; says what was read."""
        path = self.path(split)
        if path in self.loaded:
            return self.loaded[path]
        bad = BadRows(self.features.skip_bad_rows)
        options = self.data_options
        examples = tagging_examples.read(
            path,
            bad,
            tagging_examples.ColumnOptions(
                options.text_column, options.tag_column, options.token_separator
            ),
            labelled=split != TEST,
        )
        if split == TRAIN:
            if not self.labels:
                self.labels = tagging_examples.tag_names(examples)
            examples = self.training_part(examples)
            self.baseline = tagging_metrics.MajorityBaseline(examples)
        self._check_tags(examples, split, bad)
        pieces, hit = tagging_task.tokenize(
            [e.text for e in examples], self.features, self.tokenizer
        )
        windows = build_windows(
            examples,
            pieces,
            self.labels,
            self.features.row_length,
            options.doc_stride,
            self.tokenizer.symbols,
            self.features.layout,
        )
        unit = "tokens" if examples[0].words else "spans"
        what = (
            f"tagging {path}: {len(examples)} texts, {windows.units} {unit} "
            f"({windows.shared} without a piece of their own), "
            f"{windows.table.num_rows} windows"
        )
        self.report(what, windows.table, hit, bad)
        self.loaded[path] = examples, windows
        return self.loaded[path]

    def _check_tags(self, examples, split: str, bad: BadRows) -> None:
        """Notes the tags of a labelled file that the model cannot say.

        They count as wrong: leaving their texts out would flatter the model.
        """
        known = set(self.labels)
        for example in () if split == TEST else examples:
            tags = example.tags or ()
            if not example.words:
                tags = [f"{mark}-{t}" for t in tags for mark in "BI"]
            if unknown := sorted(set(tags) - known):
                bad.note(
                    example.where,
                    f"the tag {unknown[0]!r} is not of the training file and "
                    "counts as wrong",
                )

    def eval_split(self, split: str) -> EvalSplit:
        """A labelled file: scores, a report by class and predictions."""
        examples, windows = self.load(split)

        def compared(outputs):
            answers = self.answers(examples, windows, outputs)
            return answers, tagging_task.gold_and_guesses(
                examples, answers.tags, answers.spans
            )

        def part_metrics(outputs, part) -> dict[str, float]:
            answers, _ = compared(outputs)
            every = examples, answers.tags, answers.spans
            pair = tagging_task.gold_and_guesses(
                *([group[i] for i in part] for group in every)
            )
            return tagging_metrics.evaluate(*pair, self.chunks)

        def metrics(outputs, labels) -> dict[str, float]:
            del labels
            _, pair = compared(outputs)
            result = tagging_metrics.evaluate(*pair, self.chunks)
            if self.baseline is not None:
                pair = tagging_task.baseline_guesses(examples, self.baseline)
                scores = tagging_metrics.evaluate(*pair, self.chunks)
                result |= {f"baseline_{k}": v for k, v in scores.items()}
            return result

        def write(outputs, folder: str) -> list[str]:
            answers, pair = compared(outputs)
            path = os.path.join(folder, f"{split}_report.txt")
            files.write_text(path, tagging_metrics.report(*pair, self.chunks))
            return [path, self._write(split, examples, answers, folder)]

        return EvalSplit(
            self.input_fn(windows.table, False),
            metrics,
            write,
            collect=self.collector(examples, windows),
            lengths=np.array([len(e.text) for e in examples]),
            part_metrics=part_metrics,
        )

    def predict_split(self, split: str) -> PredictSplit:
        """A file to predict, with its writer."""
        examples, windows = self.load(split)

        def write(outputs, folder: str) -> list[str]:
            answers = self.answers(examples, windows, outputs)
            return [self._write(split, examples, answers, folder)]

        return PredictSplit(
            self.input_fn(windows.table, False, ()),
            write,
            self.collector(examples, windows),
        )

    def _write(self, split: str, examples, answers, folder: str) -> str:
        suffix = "conll" if examples[0].words else "jsonl"
        path = os.path.join(folder, f"{split}_predictions.{suffix}")
        files.write_text(path, tagging_task.prediction_text(examples, answers))
        return path
