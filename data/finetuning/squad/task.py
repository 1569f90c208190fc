"""SQuAD: windows, answers by question, the threshold of the null odds."""

import dataclasses
import json
import os

import numpy as np

from common import files
from common.contract.task_spec import TaskSpec
from common.errors import UserError
from data.finetuning import examples as task_examples
from data.finetuning import task_settings
from data.finetuning.examples import BadRows
from data.finetuning.features import batches as finetune_batches
from data.finetuning.options import FeatureOptions, SquadDataOptions
from data.finetuning.squad import answers as squad_answers
from data.finetuning.squad import examples as squad_examples
from data.finetuning.squad import features as squad_features
from data.finetuning.squad import windows as squad_windows
from data.finetuning.squad.answers import SquadAnswers
from data.finetuning.squad.examples import SquadFile
from data.finetuning.task import EVAL, TRAIN, Outputs, Split, Task

HEAD = "span"
# What a resumed run cannot change.
WINDOWS = ("max_query_length", "doc_stride", "max_answer_length", "n_best_size")
# What may pick the best checkpoint.
METRICS_V1 = ("f1", "exact")
METRICS_V2 = (
    *("best_f1", "best_exact", "f1", "exact"),
    *("pr_exact_ap", "pr_f1_ap", "has_ans_exact", "has_ans_f1"),
)


class SquadTask(Task):
    """Files -> windows -> beams -> answers by question."""

    data: SquadDataOptions
    expand = staticmethod(squad_features.expand_batch)
    # What the model needs of a window when it predicts.
    predict_columns = ("cls_index", "paragraph_length", "paragraph_start")
    eval_columns = predict_columns

    def __init__(self, data: SquadDataOptions, features, *arguments):
        super().__init__(data, features, *arguments)
        if features.segment_recurrence:
            raise UserError(
                "--segment_recurrence is for classification and RACE: SQuAD "
                "reads long paragraphs in windows (--doc_stride)"
            )
        check_beams(data, features)
        # Of the null odds: kept in the folder, then found by an evaluation.
        if self.trained is not None and not self.options.do_train:
            known = self.trained.data_options
            self.threshold = known.get(task_settings.THRESHOLD)
        self.find_dev_data(data.predict_file)
        self.mixture: finetune_batches.Mixture | None = None
        self._answered: tuple | None = None

    def predict_names(self):
        return ("dev",)

    def read(self, name: str, use: str) -> Split:
        if use == TRAIN:
            return self._read_training()
        path, data = self.data.predict_file, self.data
        if not path:
            raise UserError(
                "--do_eval, --do_predict and --eval_every need --predict_file"
            )
        if name not in self._loaded:
            bad = BadRows(self.features.skip_bad_rows)
            file = squad_examples.read_file(path, False, bad)
            self._loaded[name] = self._windowed(name, file, path, bad)
        split = self._loaded[name]
        if use != EVAL:
            return split
        if not split.examples.labelled:
            raise UserError(
                f"{path} has no answers to evaluate on: give a dev file, or "
                "--do_predict alone"
            )
        if split.examples.version_2 and data.null_score_diff_threshold is None:
            if not split.finds_threshold:
                self.say_judged(path, "every question has its best text")
        return split

    def _read_training(self) -> Split:
        """The training files as one split; settles how they are drawn."""
        data = self.data
        paths = data.train_files
        if not paths:
            raise UserError("--do_train needs --train_file")
        if self.options.train_examples and data.train_weights:
            raise UserError(
                "--train_examples draws from all files alike: leave "
                "--train_weights out"
            )
        bad = BadRows(self.features.skip_bad_rows)
        parts = [squad_examples.read_file(path, True, bad) for path in paths]
        file = squad_examples.join_files(parts)
        chosen = self.training_part(file.questions)
        file = dataclasses.replace(file, questions=tuple(chosen))
        split = self._windowed(TRAIN, file, ", ".join(paths), bad)
        if not data.train_weights:
            return split
        ends = np.cumsum([len(part.questions) for part in parts])
        question = split.windows.windows.question
        of_part = np.searchsorted(ends, question, side="right")
        self.mixture = finetune_batches.Mixture(
            tuple(np.bincount(of_part, minlength=len(parts)).tolist()),
            data.train_weights,
        )
        for path, count in zip(paths, self.mixture.counts(), strict=True):
            print(f"{path}: {count / finetune_batches.BLOCK:.1%} of the rows")
        return split

    def _windowed(self, name: str, file: SquadFile, path: str, bad) -> Split:
        """The windows of what was read; says so."""
        training = name == TRAIN
        windowed = squad_windows.build_split(
            file, self.features, self.data, training
        )
        table = windowed.windows.table
        line = (
            f"squad {path}: {len(file.questions)} questions on "
            f"{len(file.paragraphs)} paragraphs, {table.num_rows} windows"
        )
        if training:
            outside = int(table.columns["is_impossible"].sum())
            line += f" ({outside} without the answer)"
        print(line + (", from the cache" if windowed.from_cache else ""))
        self.say_unknown(f"squad {path}", table)
        if summary := bad.summary():
            print(summary)
        finds = not training and file.version_2
        finds = finds and self.finds_threshold_on(self.data.predict_file)
        return Split(name, file, table, windowed, finds)

    def batches(self, split: Split, use: str):
        mixture = self.mixture if use == TRAIN else None
        return super().batches(split, use, mixture)

    def answers(self, split: Split, outputs: dict) -> SquadAnswers:
        """Best texts of a split; made once for one set of outputs."""
        if "answers" in outputs:  # an ensemble's
            return outputs["answers"]
        if self._answered is None or self._answered[0] is not outputs:
            answers = squad_answers.answer_split(
                split.windows,
                outputs,
                self.data,
                self.kept_head_options().get("independent", False),
            )
            self._answered = outputs, answers
        return self._answered[1]

    def collect(self, split: Split, outputs: Outputs) -> dict:
        """Beams of windows -> answers by question: windows may differ."""
        return {"answers": self.answers(split, outputs)}

    def combine(self, members, weights):
        """Answers of several models by text, null odds averaged."""
        answers = squad_answers.combine(
            [member["answers"] for member in members],
            weights,
            self.data.n_best_size,
        )
        return {"answers": answers}

    def outputs_of_first(self, split: Split, outputs: Outputs) -> Outputs:
        """Spans of the first windows, moved into the window of each row."""
        repeated = super().outputs_of_first(split, outputs)
        columns = split.table.columns
        first = columns.get("paragraph_start", 0)
        last = first + columns["paragraph_length"] - 1  # [W]
        for name in ("start_top_index", "end_top_index"):
            ends = np.reshape(last, [-1, 1])
            begins = np.broadcast_to(np.reshape(first, [-1, 1]), ends.shape)
            repeated[name] = np.clip(repeated[name], begins, ends)
        return repeated

    @property
    def main_metric(self):
        return "best_f1" if self._version_2 else "f1"

    @property
    def metric_names(self):
        return METRICS_V2 if self._version_2 else METRICS_V1

    @property
    def _version_2(self) -> bool:
        """Of the file that is evaluated, where there is one."""
        split = self._loaded.get("dev")
        return split is None or split.examples.version_2

    def metrics(self, split: Split, outputs: Outputs, labels: Outputs):
        """The official numbers of what is written for these beams."""
        answers = self.answers(split, outputs)
        threshold = self._judged_with(split, answers)
        return squad_answers.evaluate_answers(
            split.examples, answers, threshold
        )

    def part_metrics(self, split: Split, outputs: Outputs, part: np.ndarray):
        """`metrics` of some questions, with the threshold of all."""
        answers = self.answers(split, outputs)
        threshold = self._judged_with(split, answers)
        chosen = squad_answers.part_of(split.examples, answers, part)
        return squad_answers.evaluate_answers(*chosen, threshold)

    def lengths(self, split: Split) -> np.ndarray:
        return split.examples.lengths()

    def _judged_with(self, split: Split, answers) -> float | None:
        threshold = self.data.null_score_diff_threshold
        if threshold is None and split.finds_threshold:
            return squad_answers.best_threshold(split.examples, answers)
        return self.threshold_of(split.examples)

    def threshold_of(self, file: SquadFile) -> float | None:
        """What the files are written with: as given, found or kept.

        None for v1.1 files: there every question has an answer.
        """
        if file.labelled and not file.version_2:
            return None
        threshold = self.data.null_score_diff_threshold
        return self.threshold if threshold is None else threshold

    def calibrate(self, split: Split, outputs: Outputs, labels: Outputs):
        answers = self.answers(split, outputs)
        self.threshold = squad_answers.best_threshold(split.examples, answers)
        return {task_settings.THRESHOLD: self.threshold}

    def written(self, split: Split, outputs: dict) -> SquadAnswers:
        """The answers as the files have them."""
        return squad_answers.with_threshold(
            self.answers(split, outputs), self.threshold_of(split.examples)
        )

    def write(self, split: Split, outputs: Outputs, folder: str) -> list[str]:
        """Predictions, n-best lists and null odds as JSON, in file order."""
        answers, paths = self.written(split, outputs), []
        for name, value in (
            ("predictions.json", answers.predictions),
            ("nbest_predictions.json", answers.nbest),
            ("null_odds.json", answers.null_odds),
        ):
            paths.append(os.path.join(folder, name))
            files.write_text(paths[-1], json.dumps(value, indent=2) + "\n")
        return paths

    def write_report(self, split: Split, outputs: Outputs, folder: str):
        """What was answered beside what is right."""
        answers = self.written(split, outputs)
        path = task_examples.write_tsv(
            os.path.join(folder, f"{split.name}_examples.tsv"),
            squad_answers.labelled_rows(split.examples, answers),
        )
        if self.options.do_predict:
            return [path]
        return [path, *self.write(split, outputs, folder)]

    def spec(self) -> TaskSpec:
        return self.make_spec(
            task_settings.SQUAD,
            task_name="squad",
            head=HEAD,
            head_options=self.kept_head_options(),
            data_options={
                task_settings.THRESHOLD: self.threshold,
                task_settings.DEV_DATA: self.dev_data,
            },
        )

    def export_options(self) -> dict:
        """The threshold that was given: the export's, not the folder's."""
        threshold = self.data.null_score_diff_threshold
        return {} if threshold is None else {task_settings.THRESHOLD: threshold}

    def objective_options(self) -> dict:
        longest = {"max_answer_length": self.data.max_answer_length}
        return super().objective_options() | longest

    def digest(self, split: Split) -> str:
        return squad_windows.hash_file(split.examples)

    def must_match(self) -> dict:
        data = self.data
        fields = {"task": "squad", "train_weights": list(data.train_weights)}
        windows = {name: getattr(data, name) for name in WINDOWS}
        return super().must_match() | fields | windows


def check_beams(data: SquadDataOptions, features: FeatureOptions) -> None:
    """The shortest batches must hold the beams."""
    beams = max(data.start_n_top, data.end_n_top)
    shortest = finetune_batches.bucket_lengths(
        features.length_buckets, features.max_seq_length
    )[0]
    if shortest < beams:
        raise UserError(
            f"{beams} beams (--start_n_top, --end_n_top) need batches of at "
            f"least {beams} tokens, found {shortest} (--length_buckets, "
            "--max_seq_length)"
        )
