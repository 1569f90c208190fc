"""RACE: four options per question, accuracy by level."""

import dataclasses
import os
from collections.abc import Sequence

import numpy as np

from common import files
from common.contract.symbols import CLS_LAST
from common.contract.task_spec import TaskSpec
from common.errors import UserError
from data.finetuning import examples as task_examples
from data.finetuning import metrics as task_metrics
from data.finetuning import task_settings
from data.finetuning.examples import BadRows
from data.finetuning.features import cache as finetune_cache
from data.finetuning.features import pair_features
from data.finetuning.features import table as finetune_table
from data.finetuning.features.table import FeatureTable
from data.finetuning.options import RaceDataOptions
from data.finetuning.race import examples as race_features
from data.finetuning.race.examples import (
    ANSWERS,
    LEVELS,
    RaceExample,
    read_race,
)
from data.finetuning.task import PREDICT, TRAIN, Outputs, Split, Task

HEAD = "multiple_choice"


class RaceTask(Task):
    """Folders -> features of four options -> accuracy by level."""

    data: RaceDataOptions

    def __init__(self, data: RaceDataOptions, features, *arguments):
        super().__init__(data, features, *arguments)
        if data.accumulate_options and features.layout != CLS_LAST:
            raise UserError(
                "--accumulate_options gives the inputs of the original XLNet, "
                "whose CLS comes last: leave it out with this encoder"
            )

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels to read."""
        if self.data.high_only:
            return ("high",)
        return ("middle",) if self.data.middle_only else LEVELS

    def eval_names(self):
        return (self.data.eval_split,)

    def predict_names(self):
        test = os.path.join(self.data.data_dir, "test")
        return ("test",) if files.is_folder(test) else self.eval_names()

    def read(self, name: str, use: str) -> Split:
        key = self.loaded_key(name, use)
        if key not in self._loaded:
            self._loaded[key] = self._read(name, use)
        split = self._loaded[key]
        if use != PREDICT and "label_ids" not in split.table.columns:
            raise UserError(f"the split {name!r} has questions without answer")
        return split

    def _read(self, name: str, use: str) -> Split:
        bad = BadRows(self.features.skip_bad_rows)
        examples = read_race(
            self.data.data_dir, name, bad, self.levels, use != PREDICT
        )
        if use == TRAIN:
            examples = self.training_part(examples)
        key = {
            "task": "race",
            "data": hash_examples(examples),
            "max_qa_length": self.data.max_qa_length,
            "accumulate_options": self.data.accumulate_options,
        }
        table, hit = self.cached_table(
            f"race-{name}",
            key,
            [(e.article, *e.options) for e in examples],
            lambda tokenized: self.table(examples, tokenized),
        )
        what = f"race {name}: {len(examples)} questions"
        self.say_read(what, table, hit, bad)
        return Split(name, examples, table)

    def table(
        self,
        examples: Sequence[RaceExample],
        tokenized: Sequence[Sequence[Sequence[int]]],
    ) -> FeatureTable:
        """Features of examples; token ids of passages and four options."""
        sequences = []
        for passage, *choices in tokenized:
            sequences.extend(
                race_features.option_sequences(
                    passage,
                    choices,
                    self.features.row_length,
                    self.data.max_qa_length,
                    self.tokenizer.symbols,
                    self.data.accumulate_options,
                    self.features.layout,
                )
            )
        labels = np.array([e.label for e in examples], np.int32)  # [N]
        columns = {"label_ids": labels} if (labels >= 0).all() else {}
        return finetune_table.from_sequences(
            sequences,
            columns,
            num_options=race_features.NUM_OPTIONS,
            **pair_features.padding(self.features.layout),
        )

    @property
    def metric_names(self):
        levels = self.levels
        for split in self.evals.values():  # a folder may hold one level alone
            found = {e.level for e in split.examples}
            levels = [name for name in levels if name in found]
        return ("accuracy", *(f"accuracy_{name}" for name in levels))

    def metrics(self, split: Split, outputs: Outputs, labels: Outputs):
        return evaluate(split.examples, outputs["logits"])

    def part_metrics(self, split: Split, outputs: Outputs, part: np.ndarray):
        chosen = [split.examples[i] for i in part]
        return evaluate(chosen, outputs["logits"][part])

    def lengths(self, split: Split) -> np.ndarray:
        return np.array([len(e.article) for e in split.examples])

    def write(self, split: Split, outputs: Outputs, folder: str) -> list[str]:
        path = os.path.join(folder, f"{split.name}_predictions.tsv")
        rows = prediction_rows(split.examples, outputs["logits"])
        return [task_examples.write_tsv(path, rows)]

    def write_report(self, split: Split, outputs: Outputs, folder: str):
        path = os.path.join(folder, f"{split.name}_examples.tsv")
        rows = labelled_rows(split.examples, outputs["logits"])
        return [task_examples.write_tsv(path, rows)]

    def spec(self) -> TaskSpec:
        return self.make_spec(
            task_settings.RACE,
            task_name="race",
            head=HEAD,
            labels=tuple(ANSWERS),
        )

    def digest(self, split: Split) -> str:
        return hash_examples(split.examples)

    def must_match(self) -> dict:
        fields = {"task": "race"} | self.spec().data_options
        return super().must_match() | fields


def evaluate(
    examples: Sequence[RaceExample], logits: np.ndarray
) -> dict[str, float]:
    """Accuracy over all questions and per level; logits `[N, 4]`."""
    labels = np.array([e.label for e in examples])
    level = np.array([e.level for e in examples])

    def accuracy(chosen) -> float:
        return task_metrics.classification_metrics(
            logits[chosen], labels[chosen], ("accuracy",)
        )["accuracy"]

    result = {"accuracy": accuracy(slice(None))}
    for name in LEVELS:
        if (level == name).any():
            result[f"accuracy_{name}"] = accuracy(level == name)
    return result


def labelled_rows(
    examples: Sequence[RaceExample], logits: np.ndarray
) -> list[list[str]]:
    """`prediction_rows` with the right answer and all texts."""
    return task_examples.labelled_rows(
        prediction_rows(examples, logits),
        [ANSWERS[e.label] for e in examples],
        [(e.article, *e.options) for e in examples],
        ["passage", *(f"option_{a}" for a in ANSWERS)],
    )


def prediction_rows(
    examples: Sequence[RaceExample], logits: np.ndarray
) -> list[list[str]]:
    """Header and one row per question: guid, letter, four probabilities."""
    guids = [e.guid for e in examples]
    return task_examples.share_rows(
        guids, ANSWERS, task_metrics.softmax(logits)
    )


def hash_examples(examples: list[RaceExample]) -> str:
    """Hash of passages, options and answers."""
    return finetune_cache.hash_texts(map(dataclasses.astuple, examples))
