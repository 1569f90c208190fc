"""RACE as a job: four options per question, accuracy by level."""

import dataclasses
import os

import numpy as np

from common import files
from common.errors import UserError
from data.finetuning import cache as finetune_cache
from data.finetuning import examples as task_examples
from data.finetuning import task_settings
from data.finetuning.examples import BadRows
from data.finetuning.options import FeatureOptions, RaceDataOptions
from data.finetuning.race import examples as race_examples
from data.finetuning.race import task as race_task
from data.finetuning.race.examples import RaceExample
from data.finetuning.table import FeatureTable
from data.symbols import CLS_LAST
from data.task_spec import TaskSpec
from training.finetuning.job import EvalSplit, PredictSplit, TaskJob


class RaceJob(TaskJob):
    """Turns RACE folders into a `training.finetuning.run.Job`.

    Args:
      data_options: folders, levels, options.
      features: how text becomes features.
      options: what will be done; only those splits are read.
      trained: task.json of the trained model.
    """

    def __init__(
        self,
        data_options: RaceDataOptions,
        features: FeatureOptions,
        options,
        trained: TaskSpec | None = None,
    ):
        del trained  # its settings are the flags'
        super().__init__(features, options)
        if data_options.accumulate_options and features.layout != CLS_LAST:
            raise UserError(
                "--accumulate_options gives the inputs of the original XLNet, "
                "whose CLS comes last: leave it out with this encoder"
            )
        self.data_options = data_options

    def build(self):
        """Reads and tokenizes the splits that are needed."""
        options = self.options
        train_input_fn, train_hash, table = None, "", None
        evals: dict = {}
        predicts: dict = {}
        if options.do_train:
            examples, table = self.load("train")
            self.require_labels(table, "train")
            train_hash = hash_examples(examples)
            train_input_fn = self.input_fn(table, True)
        split = self.data_options.eval_split
        if options.do_eval or options.run.eval_every:
            evals[split] = self.eval_split(split)
        if options.do_predict:
            test = os.path.join(self.data_options.data_dir, "test")
            name = "test" if os.path.isdir(test) else split
            predicts[name] = self.predict_split(name)
        return self.make_job(
            "accuracy",
            train_input_fn,
            evals,
            predicts,
            {"task": "race", "train_data": train_hash}
            | self.spec().data_options,
            train_table=table,
            metric_names=race_task.metric_names(self.data_options),
        )

    def spec(self) -> TaskSpec:
        """task.json of this task."""
        return task_settings.make_spec(
            task_settings.RACE,
            (self.features, self.options, self.data_options),
            task_name="race",
            head=race_task.HEAD,
            text=self.tokenizer.settings,
            spiece_sha256=self.tokenizer.sha256,
            labels=tuple(race_examples.ANSWERS),
        )

    def load(self, split: str) -> tuple[list[RaceExample], FeatureTable]:
        """Examples and features of a split; says what was read."""
        if split in self.loaded:
            return self.loaded[split]
        bad = BadRows(self.features.skip_bad_rows)
        examples = race_examples.read_race(
            self.data_options.data_dir,
            split,
            bad,
            race_task.levels(self.data_options),
        )
        if split == "train":
            examples = self.training_part(examples)
        key = {
            "task": "race",
            "data": hash_examples(examples),
            "max_qa_length": self.data_options.max_qa_length,
            "accumulate_options": self.data_options.accumulate_options,
        }
        table, hit = self.cached_table(
            f"race-{split}",
            key,
            race_task.texts(examples),
            lambda tokenized: race_task.build_table(
                examples,
                tokenized,
                self.features.row_length,
                self.tokenizer.symbols,
                self.data_options,
                self.features.layout,
            ),
        )
        what = f"race {split}: {len(examples)} questions"
        self.report(what, table, hit, bad)
        self.loaded[split] = examples, table
        return examples, table

    def require_labels(self, table: FeatureTable, split: str) -> None:
        """Labels are needed to train and to evaluate."""
        if "label_ids" not in table.columns:
            raise UserError(f"the split {split!r} has questions without answer")

    def eval_split(self, split: str):
        """A labelled split: accuracy, over all and by level."""
        examples, table = self.load(split)
        self.require_labels(table, split)

        def metrics(outputs, labels) -> dict[str, float]:
            del labels
            return race_task.evaluate(examples, outputs["logits"])

        def write(outputs, folder: str) -> list[str]:
            rows = race_task.labelled_rows(examples, outputs["logits"])
            path = os.path.join(folder, f"{split}_examples.tsv")
            files.write_text(path, task_examples.to_tsv(rows))
            return [path]

        def part_metrics(outputs, part) -> dict[str, float]:
            chosen = [examples[i] for i in part]
            return race_task.evaluate(chosen, outputs["logits"][part])

        return EvalSplit(
            self.input_fn(table, False),
            metrics,
            write,
            lengths=np.array([len(e.article) for e in examples]),
            part_metrics=part_metrics,
        )

    def predict_split(self, split: str):
        """A split to predict, with its writer."""
        examples, table = self.load(split)

        def write(outputs, folder: str) -> list[str]:
            rows = race_task.prediction_rows(examples, outputs["logits"])
            path = os.path.join(folder, f"{split}_predictions.tsv")
            files.write_text(path, task_examples.to_tsv(rows))
            return [path]

        return PredictSplit(self.input_fn(table, False, ()), write)


def hash_examples(examples: list[RaceExample]) -> str:
    """Hash of passages, options and answers."""
    return finetune_cache.hash_texts(map(dataclasses.astuple, examples))
