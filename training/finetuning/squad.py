"""SQuAD as a job: windows, answers, threshold, predictions."""

import dataclasses
import json
import os

import numpy as np

from common import files
from common.errors import UserError
from data.finetuning import batches as finetune_batches
from data.finetuning import examples as task_examples
from data.finetuning import task_settings
from data.finetuning.examples import BadRows
from data.finetuning.options import FeatureOptions, SquadDataOptions
from data.finetuning.squad import ensembles as squad_ensembles
from data.finetuning.squad import examples as squad_examples
from data.finetuning.squad import features as squad_features
from data.finetuning.squad import task as squad_task
from data.finetuning.squad.task import SquadSplit
from data.task_spec import TaskSpec
from training.finetuning.job import EvalSplit, PredictSplit, TaskJob

# What a resumed run cannot change.
WINDOWS = ("max_query_length", "doc_stride", "max_answer_length", "n_best_size")
# What the model needs of a window when it predicts.
PREDICT_COLUMNS = ("cls_index", "paragraph_length", "paragraph_start")


def check_beams(
    data_options: SquadDataOptions, features: FeatureOptions
) -> None:
    """The shortest batches must hold the beams.

    Raises:
      UserError: they do not.
    """
    beams = max(data_options.start_n_top, data_options.end_n_top)
    shortest = finetune_batches.bucket_lengths(
        features.length_buckets, features.max_seq_length
    )[0]
    if shortest < beams:
        raise UserError(
            f"{beams} beams (--start_n_top, --end_n_top) need batches of at "
            f"least {beams} tokens, found {shortest} (--length_buckets, "
            "--max_seq_length)"
        )


class SquadJob(TaskJob):
    """Turns SQuAD files into a `training.finetuning.run.Job`.

    Args:
      data_options: files, windows and answers.
      features: how text becomes features.
      options: what will be done; only those files are read.
      trained: task.json of the trained model.
    """

    expand = staticmethod(squad_features.expand_batch)

    def __init__(
        self,
        data_options: SquadDataOptions,
        features: FeatureOptions,
        options,
        trained: TaskSpec | None = None,
    ):
        super().__init__(features, options)
        if features.segment_recurrence:
            raise UserError(
                "--segment_recurrence is for classification and RACE: SQuAD "
                "reads long paragraphs in windows (--doc_stride)"
            )
        check_beams(data_options, features)
        self.data_options, self.trained = data_options, trained
        # Of the null odds: kept in the folder, then found by an evaluation.
        if trained is not None and not options.do_train:
            self.threshold = trained.data_options.get(task_settings.THRESHOLD)
        self.find_dev_data(data_options.predict_file, trained)
        self._answered: tuple | None = None

    def build(self):
        """Reads and windows the files that are needed."""
        options = self.options
        train_input_fn, train_hash, version_2 = None, "", True
        train_table = None
        evals: dict = {}
        predicts: dict = {}
        if options.do_train:
            if not self.data_options.train_file:
                raise UserError("--do_train needs --train_file")
            split, mixture = self.load_training()
            train_hash = squad_task.hash_file(split.file)
            train_table = split.windows.table
            train_input_fn = self.input_fn(
                split.windows.table, True, mixture=mixture
            )
        if options.do_eval or options.do_predict or options.run.eval_every:
            if not self.data_options.predict_file:
                raise UserError(
                    "--do_eval, --do_predict and --eval_every need "
                    "--predict_file"
                )
            split = self.load(self.data_options.predict_file, False)
            if not split.file.labelled and (
                options.do_eval or options.run.eval_every
            ):
                raise UserError(
                    f"{self.data_options.predict_file} has no answers to "
                    "evaluate on: give a dev file, or --do_predict alone"
                )
            input_fn = self.input_fn(
                split.windows.table,
                False,
                [
                    n
                    for n in PREDICT_COLUMNS
                    if n in split.windows.table.columns
                ],
            )
            write = self.writer(split)
            version_2 = split.file.version_2
            if options.do_eval or options.run.eval_every:
                evals["dev"] = self.eval_split(split, input_fn)
                self._say_threshold(split)
            if options.do_predict:
                collect = self.collector(split)
                predicts["dev"] = PredictSplit(input_fn, write, collect)
        return self.make_job(
            "best_f1" if version_2 else "f1",
            train_input_fn,
            evals,
            predicts,
            {"task": "squad", "train_data": train_hash}
            | self._weights()
            | {name: getattr(self.data_options, name) for name in WINDOWS},
            self.export_options(),
            train_table,
            squad_task.METRICS_V2 if version_2 else squad_task.METRICS_V1,
        )

    def _say_threshold(self, split: SquadSplit) -> None:
        given = self.data_options.null_score_diff_threshold
        if split.file.version_2 and given is None and not self.finds(split):
            path = self.data_options.predict_file
            self.say_judged(path, "every question has its best text")

    def finds(self, split: SquadSplit) -> bool:
        """Whether an evaluation of a split finds the folder's threshold."""
        path = self.data_options.predict_file
        return split.file.version_2 and self.finds_threshold(path)

    def eval_split(self, split: SquadSplit, input_fn) -> EvalSplit:
        """A labelled file: the official numbers, threshold and answers."""
        return EvalSplit(
            input_fn,
            self.metrics_of(split),
            self.report_writer(split, not self.options.do_predict),
            self.calibration(split),
            self.collector(split),
            split.file.lengths(),
            self.part_metrics_of(split),
        )

    def collector(self, split: SquadSplit):
        """Beams of windows -> answers by question: windows may differ."""
        return lambda outputs: {"answers": self.answers(split, outputs)}

    def combine(self, members, weights):
        """Answers of several models by text, null odds averaged."""
        answers = squad_ensembles.combine(
            [member["answers"] for member in members],
            weights,
            self.data_options.n_best_size,
        )
        return {"answers": answers}

    def report_writer(self, split: SquadSplit, with_predictions: bool):
        """Writes what was answered beside what is right."""
        write_answers = self.writer(split)

        def write(outputs, folder: str) -> list[str]:
            answers = squad_task.with_threshold(
                self.answers(split, outputs), self.threshold_of(split.file)
            )
            path = os.path.join(folder, "dev_examples.tsv")
            rows = squad_task.labelled_rows(split.file, answers)
            files.write_text(path, task_examples.to_tsv(rows))
            more = write_answers(outputs, folder) if with_predictions else []
            return [path, *more]

        return write

    def spec(self) -> TaskSpec:
        """task.json of this task."""
        return task_settings.make_spec(
            task_settings.SQUAD,
            (self.features, self.data_options),
            task_name="squad",
            head=squad_task.HEAD,
            head_options=self.kept_head_options(self.trained),
            text=self.tokenizer.settings,
            spiece_sha256=self.tokenizer.sha256,
            data_options={
                task_settings.THRESHOLD: self.threshold,
                task_settings.DEV_DATA: self.dev_data,
            },
        )

    def _weights(self) -> dict:
        """How sets are drawn, where that was said."""
        weights = self.data_options.train_weights
        return {"train_weights": list(weights)} if weights else {}

    def load_training(self):
        """The training files as one split, and how they are drawn."""
        paths = self.data_options.train_files
        if self.options.train_examples and self.data_options.train_weights:
            raise UserError(
                "--train_examples draws from all files alike: leave "
                "--train_weights out"
            )
        bad = BadRows(self.features.skip_bad_rows)
        parts = [squad_task.read_file(path, True, bad) for path in paths]
        file = squad_examples.join_files(parts)
        chosen = self.training_part(file.questions)
        file = dataclasses.replace(file, questions=tuple(chosen))
        split = self.windowed(file, ", ".join(paths), True, bad)
        if not self.data_options.train_weights:
            return split, None
        ends = np.cumsum([len(part.questions) for part in parts])
        of_part = np.searchsorted(ends, split.windows.question, side="right")
        mixture = finetune_batches.Mixture(
            tuple(np.bincount(of_part, minlength=len(parts)).tolist()),
            self.data_options.train_weights,
        )
        for path, count in zip(paths, mixture.counts(), strict=True):
            print(f"{path}: {count / finetune_batches.BLOCK:.1%} of the rows")
        return split, mixture

    def load(self, path: str, training: bool) -> SquadSplit:
        """A file with its windows; says what was read."""
        bad = BadRows(self.features.skip_bad_rows)
        file = squad_task.read_file(path, training, bad)
        return self.windowed(file, path, training, bad)

    def windowed(self, file, path: str, training: bool, bad) -> SquadSplit:
        """The windows of what was read; says so."""
        split = squad_task.build_split(
            file, self.features, self.data_options, training
        )
        windows = split.windows
        line = (
            f"squad {path}: {len(file.questions)} questions on "
            f"{len(file.paragraphs)} paragraphs, "
            f"{len(windows.question)} windows"
        )
        if training:
            outside = int(windows.table.columns["is_impossible"].sum())
            line += f" ({outside} without the answer)"
        print(line + (", from the cache" if split.from_cache else ""))
        if bad.count:
            print(bad.summary())
        return split

    def answers(self, split: SquadSplit, outputs) -> squad_task.SquadAnswers:
        """Best texts of a split; made once for one set of outputs."""
        if "answers" in outputs:  # an ensemble's
            return outputs["answers"]
        if self._answered is None or self._answered[0] is not outputs:
            answers = squad_task.answer_split(split, outputs, self.data_options)
            self._answered = outputs, answers
        return self._answered[1]

    def threshold_of(self, file: squad_examples.SquadFile) -> float | None:
        """What the files are written with: as given, found or kept.

        None for v1.1 files: there every question has an answer.
        """
        if file.labelled and not file.version_2:
            return None
        given = self.data_options.null_score_diff_threshold
        return self.threshold if given is None else given

    def export_options(self) -> dict:
        """The threshold that was given: the export's, not the folder's."""
        given = self.data_options.null_score_diff_threshold
        return {} if given is None else {task_settings.THRESHOLD: given}

    def calibration(self, split: SquadSplit):
        """Finds the folder's threshold on the training's dev file; else None."""
        if not self.finds(split):
            return None

        def calibrate(outputs, labels) -> dict:
            del labels
            answers = self.answers(split, outputs)
            self.threshold = squad_task.best_threshold(split.file, answers)
            return {task_settings.THRESHOLD: self.threshold}

        return calibrate

    def metrics_of(self, split: SquadSplit):
        """The official numbers of what is written for these beams."""

        def metrics(outputs: dict[str, np.ndarray], labels) -> dict:
            del labels
            answers = self.answers(split, outputs)
            threshold = self._wanted_threshold(split, answers)
            return squad_task.evaluate_answers(split.file, answers, threshold)

        return metrics

    def part_metrics_of(self, split: SquadSplit):
        """`metrics_of` some questions, with the threshold of all."""

        def metrics(outputs: dict[str, np.ndarray], part) -> dict:
            answers = self.answers(split, outputs)
            threshold = self._wanted_threshold(split, answers)
            own = squad_task.part_of(split.file, answers, part)
            return squad_task.evaluate_answers(*own, threshold)

        return metrics

    def _wanted_threshold(self, split: SquadSplit, answers) -> float | None:
        given = self.data_options.null_score_diff_threshold
        if given is None and self.finds(split):
            return squad_task.best_threshold(split.file, answers)
        return self.threshold_of(split.file)

    def writer(self, split: SquadSplit):
        """Writes predictions, n-best lists and null odds as JSON."""

        def write(outputs, folder: str) -> list[str]:
            answers = squad_task.with_threshold(
                self.answers(split, outputs), self.threshold_of(split.file)
            )
            paths = []
            for name, value in (
                ("predictions.json", answers.predictions),
                ("nbest_predictions.json", answers.nbest),
                ("null_odds.json", answers.null_odds),
            ):
                paths.append(os.path.join(folder, name))
                # In file order, not by id.
                files.write_text(paths[-1], json.dumps(value, indent=2) + "\n")
            return paths

        return write
