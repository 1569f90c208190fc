"""RACE as a task: folders -> features of four options -> accuracy by level."""

from collections.abc import Sequence

import numpy as np

from data.finetuning import metrics, pair_features
from data.finetuning import table as finetune_table
from data.finetuning.options import RaceDataOptions
from data.finetuning.race import features as race_features
from data.finetuning.race.examples import ANSWERS, LEVELS, RaceExample
from data.finetuning.table import FeatureTable
from data.symbols import CLS_LAST, SymbolIds

HEAD = "multiple_choice"


def levels(options: RaceDataOptions) -> tuple[str, ...]:
    """The levels to read."""
    if options.high_only:
        return ("high",)
    return ("middle",) if options.middle_only else LEVELS


def texts(examples: Sequence[RaceExample]) -> list[tuple[str, ...]]:
    """What is tokenized per example: the passage, then the four options."""
    return [(e.article, *e.options) for e in examples]


def build_table(
    examples: Sequence[RaceExample],
    tokenized: Sequence[Sequence[Sequence[int]]],
    max_seq_length: int,
    ids: SymbolIds,
    options: RaceDataOptions,
    layout: str = CLS_LAST,
) -> FeatureTable:
    """Features of examples whose `texts` are already token ids."""
    sequences = []
    for passage, *choices in tokenized:
        sequences.extend(
            race_features.option_sequences(
                passage,
                choices,
                max_seq_length,
                options.max_qa_length,
                ids,
                options.accumulate_options,
                layout,
            )
        )
    labels = np.array([e.label for e in examples], np.int32)  # [N]
    columns = {"label_ids": labels} if (labels >= 0).all() else {}
    return finetune_table.from_sequences(
        sequences,
        columns,
        num_options=race_features.NUM_OPTIONS,
        **pair_features.padding(layout),
    )


def evaluate(
    examples: Sequence[RaceExample], logits: np.ndarray
) -> dict[str, float]:
    """Accuracy over all questions and per level; logits `[N, 4]`."""
    labels = np.array([e.label for e in examples])
    level = np.array([e.level for e in examples])
    result = metrics.classification_metrics(logits, labels, ("accuracy",))
    for name in LEVELS:
        chosen = level == name
        if chosen.any():
            result[f"accuracy_{name}"] = metrics.classification_metrics(
                logits[chosen], labels[chosen], ("accuracy",)
            )["accuracy"]
    return result


def metric_names(options: RaceDataOptions) -> tuple[str, ...]:
    """What `evaluate` gives."""
    return ("accuracy", *(f"accuracy_{name}" for name in levels(options)))


def labelled_rows(
    examples: Sequence[RaceExample], logits: np.ndarray
) -> list[list[str]]:
    """`prediction_rows` with the right answer and all texts."""
    head, *rows = prediction_rows(examples, logits)
    texts_of = ["passage", *(f"option_{a}" for a in ANSWERS)]
    result = [["guid", "label", *head[1:], *texts_of]]
    for example, row in zip(examples, rows, strict=True):
        gold = ANSWERS[example.label]
        texts = (example.article, *example.options)
        result.append([example.guid, gold, *row[1:], *texts])
    return result


def prediction_rows(
    examples: Sequence[RaceExample], logits: np.ndarray
) -> list[list[str]]:
    """Header and one row per question: guid, letter, four probabilities."""
    rows = [["guid", "prediction", *(f"p({a})" for a in ANSWERS)]]
    for example, row in zip(examples, metrics.softmax(logits), strict=True):
        guess = ANSWERS[int(np.argmax(row))]
        rows.append([example.guid, guess, *(f"{p:.6f}" for p in row)])
    return rows
