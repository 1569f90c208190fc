"""SQuAD as a task: file -> windows (parallel, cached) -> answers -> scores."""

import dataclasses
import os
from collections.abc import Callable, Sequence

import numpy as np

from common import vocabulary as vocabulary_lib
from common import workers
from data.finetuning import cache as finetune_cache
from data.finetuning import table_files
from data.finetuning import tokens as task_tokens
from data.finetuning.examples import BadRows
from data.finetuning.options import (
    FeatureOptions,
    SquadDataOptions,
    require_paragraph_room,
)
from data.finetuning.squad import features as squad_features
from data.finetuning.squad import metrics as squad_metrics
from data.finetuning.squad import predictions as squad_predictions
from data.finetuning.squad.examples import SquadFile, read_squad
from data.finetuning.squad.features import (
    AnswerSpan,
    SquadWindows,
    TokenizedParagraph,
)
from data.finetuning.squad.predictions import AnswerOptions
from data.finetuning.table import FeatureTable
from data.symbols import CLS_LAST

HEAD = "span"
# Ending of a file, before .gz or .xz -> (path, training, bad rows) -> the file.
READERS: dict[str, Callable[[str, bool, BadRows], SquadFile]] = {
    ".json": read_squad,
}
# Paragraphs that one worker call handles.
CHUNK_PARAGRAPHS = 64
BEAM_FIELDS = (
    "start_top_log_probs",
    "start_top_index",
    "end_top_log_probs",
    "end_top_index",
    "cls_logits",
)


# What may pick the best checkpoint.
METRICS_V1 = ("f1", "exact")
METRICS_V2 = (
    *("best_f1", "best_exact", "f1", "exact"),
    *("pr_exact_ap", "pr_f1_ap", "has_ans_exact", "has_ans_f1"),
)


@dataclasses.dataclass(frozen=True)
class SquadSplit:
    """A file with its features.

    Attributes:
      file: paragraphs and questions.
      windows: model inputs.
      paragraphs: tokenized, by index.
      from_cache: the features were read and not made.
    """

    file: SquadFile
    windows: SquadWindows
    paragraphs: list[TokenizedParagraph]
    from_cache: bool


def read_file(path: str, training: bool, bad: BadRows) -> SquadFile:
    """Questions of a file, read by its ending; SQuAD's layout by default.

    Args:
      path: plain, .gz or .xz; where it is not there, that of this name with
        .gz or .xz is read.
      training: see `examples.read_squad`.
      bad: receives questions that cannot be used.

    Raises:
      UserError: no such file, or what the reader refuses.
    """
    path = table_files.packed(path)
    name = path.removesuffix(".gz").removesuffix(".xz")
    reader = READERS.get(os.path.splitext(name)[1], read_squad)
    return reader(path, training, bad)


def build_split(
    file: SquadFile,
    features: FeatureOptions,
    options: SquadDataOptions,
    training: bool,
) -> SquadSplit:
    """Tokenizes and windows a file, in parallel, or reads them from the cache.

    Raises:
      UserError: no room for the paragraph beside the longest question.
    """
    require_paragraph_room(features.max_seq_length, options.max_query_length)
    vocabulary = vocabulary_lib.read(features.spiece_model_file)
    key = {
        "task": "squad",
        "data": hash_file(file),
        "spiece": vocabulary.sha256,
        "text": vocabulary.resolve(features.text).as_dict(),
        "max_seq_length": features.max_seq_length,
        "max_query_length": options.max_query_length,
        "doc_stride": options.doc_stride,
        "training": training,
    }
    if features.layout != CLS_LAST:  # older files are of this one
        key["layout"] = features.layout
    arrays, hit = finetune_cache.cached(
        features.cache_dir,
        "squad-train" if training else "squad-eval",
        key,
        lambda: build_arrays(file, features, options, training),
    )
    windows, paragraphs = from_arrays(arrays)
    return SquadSplit(file, windows, paragraphs, hit)


def hash_file(file: SquadFile) -> str:
    """Hash of all paragraphs, questions and answers."""
    return finetune_cache.hash_texts(
        [*file.paragraphs, *map(dataclasses.astuple, file.questions)]
    )


def build_arrays(
    file: SquadFile,
    features: FeatureOptions,
    options: SquadDataOptions,
    training: bool,
) -> dict[str, np.ndarray]:
    """All features of a file as named arrays; the same for any worker count."""
    by_paragraph: list[list[tuple]] = [[] for _ in file.paragraphs]
    for index, question in enumerate(file.questions):
        first, last = -1, -1
        if training and question.answerable:
            first = question.answer_start
            end = question.answer_end
            last = (end or first + len(question.answer)) - 1
        by_paragraph[question.paragraph].append(
            (index, question.text, first, last)
        )
    items = list(zip(file.paragraphs, by_paragraph, strict=True))
    settings = (
        features.max_seq_length,
        options.max_query_length,
        options.doc_stride,
        training,
        features.layout,
    )
    chunks = [
        (settings, chunk)
        for chunk in workers.split_chunks(items, CHUNK_PARAGRAPHS)
    ]
    parts = list(
        workers.run(
            workers.with_state,
            (
                _chunk_arrays,
                task_tokens.open_tokenizer,
                features.spiece_model_file,
                features.text,
            ),
            chunks,
            features.num_workers,
            ordered=True,
        )
    )
    return {
        name: np.concatenate([part[name] for part in parts])
        for name in parts[0]
    }


def _chunk_arrays(tokenizer, job) -> dict[str, np.ndarray]:
    """Features of some paragraphs with their questions."""
    (*lengths, training, layout), items = job
    max_seq_length, max_query_length, doc_stride = lengths
    builder = squad_features.WindowBuilder(
        max_seq_length,
        max_query_length,
        doc_stride,
        task_tokens.symbol_ids(tokenizer),
        training,
        layout,
    )
    texts = [q[1] for _, questions in items for q in questions]
    queries = iter(task_tokens.encode_batch(tokenizer, texts))
    tokenized = task_tokens.encode_with_offsets(
        tokenizer, [paragraph for paragraph, _ in items]
    )
    for paragraph, (_, questions) in zip(tokenized, items, strict=True):
        for index, _, first, last in questions:
            span = AnswerSpan(first, last)
            builder.add(index, next(queries), paragraph, span)
    windows = builder.finish()
    lengths = [len(p.ids) for p in tokenized]
    arrays = {
        "token_ids": windows.table.token_ids,
        "segment_ids": windows.table.segment_ids,
        "row_lengths": np.diff(windows.table.row_splits),
        "question": windows.question,
        "doc_start": windows.doc_start,
        "paragraph_ids": np.concatenate([p.ids for p in tokenized]),
        "paragraph_starts": np.concatenate([p.start for p in tokenized]),
        "paragraph_ends": np.concatenate([p.end for p in tokenized]),
        "paragraph_lengths": np.array(lengths, np.int32),
    }
    for name, column in windows.table.columns.items():
        arrays[f"column:{name}"] = column
    return arrays


def from_arrays(
    arrays: dict[str, np.ndarray],
) -> tuple[SquadWindows, list[TokenizedParagraph]]:
    """The opposite of `build_arrays`."""
    splits = np.concatenate([[0], np.cumsum(arrays["row_lengths"])])
    table = FeatureTable(
        arrays["token_ids"],
        arrays["segment_ids"],
        splits.astype(np.int64),
        {
            name.removeprefix("column:"): value
            for name, value in arrays.items()
            if name.startswith("column:")
        },
        **squad_features.padding("column:paragraph_start" in arrays),
    )
    windows = SquadWindows(table, arrays["question"], arrays["doc_start"])
    ends = np.cumsum(arrays["paragraph_lengths"], dtype=np.int64)
    starts = ends - arrays["paragraph_lengths"]
    paragraphs = [
        TokenizedParagraph(
            arrays["paragraph_ids"][a:b],
            arrays["paragraph_starts"][a:b],
            arrays["paragraph_ends"][a:b],
        )
        for a, b in zip(starts, ends, strict=True)
    ]
    return windows, paragraphs


@dataclasses.dataclass(frozen=True)
class SquadAnswers:
    """What is written: per question id, in file order."""

    predictions: dict[str, str]
    nbest: dict[str, list[dict]]
    null_odds: dict[str, float]


def answer_split(
    split: SquadSplit,
    outputs: dict[str, np.ndarray],
    options: SquadDataOptions,
) -> SquadAnswers:
    """Answers of every question from the beams of every window.

    Every question is answered with its best text; see `with_threshold`.

    Args:
      split: the evaluated split.
      outputs: `BEAM_FIELDS`, first dimension the windows in order.
      options: see `SquadDataOptions`.
    """
    texts = squad_features.window_texts(
        split.windows,
        split.paragraphs,
        [q.paragraph for q in split.file.questions],
    )
    starts = split.windows.table.columns.get("paragraph_start")
    if starts is not None:  # beams are places of the row
        shifted = {
            name: outputs[name] - starts[:, np.newaxis]
            for name in ("start_top_index", "end_top_index")
        }
        outputs = outputs | shifted
    beams: Sequence[Sequence] = [outputs[name].tolist() for name in BEAM_FIELDS]
    grouped: list[list] = [[] for _ in split.file.questions]
    for window, (question, text) in enumerate(texts):
        entry = squad_predictions.WindowBeams(*(b[window] for b in beams))
        grouped[question].append((text, entry))
    answer_options = AnswerOptions(
        options.n_best_size,
        options.max_answer_length,
        options.original_last_token_bug,
    )
    nbest, odds = {}, {}
    for question, windows in zip(split.file.questions, grouped, strict=True):
        paragraph = split.file.paragraphs[question.paragraph]
        nbest[question.question_id], odds[question.question_id] = (
            squad_predictions.answer_question(
                paragraph, windows, answer_options
            )
        )
    return SquadAnswers(
        squad_predictions.final_answers(nbest, odds), nbest, odds
    )


def with_threshold(
    answers: SquadAnswers, threshold: float | None
) -> SquadAnswers:
    """The answers as they are written: "" above the threshold."""
    predictions = squad_predictions.final_answers(
        answers.nbest, answers.null_odds, threshold
    )
    return dataclasses.replace(answers, predictions=predictions)


def labelled_rows(file: SquadFile, answers: SquadAnswers) -> list[list[str]]:
    """Header and one row per question: gold texts, prediction, F1, texts.

    Args:
      file: questions with their gold answers.
      answers: as they are written, see `with_threshold`.
    """
    _, f1 = squad_metrics.raw_scores(file.gold_answers(), answers.predictions)
    head = ["id", "answers", "prediction", "f1", "null_odds", "question"]
    rows = [[*head, "paragraph"]]
    for question in file.questions:
        name = question.question_id
        rows.append(
            [
                name,
                " | ".join(question.answers),
                answers.predictions[name],
                f"{f1[name]:.4f}",
                f"{answers.null_odds[name]:.6g}",
                question.text,
                file.paragraphs[question.paragraph],
            ]
        )
    return rows


def best_threshold(file: SquadFile, answers: SquadAnswers) -> float:
    """The threshold with the best F1 on a v2.0 file, to be used on others.

    Raises:
      ValueError: a v1.1 file, where it has no meaning.
    """
    if not file.version_2:
        raise ValueError("`file` must be of version 2.0")
    gold = file.gold_answers()
    best = squad_predictions.final_answers(answers.nbest, answers.null_odds)
    _, f1 = squad_metrics.raw_scores(gold, best)
    # "" is right, too, where nothing of the gold texts counts ("The").
    answerable = {
        q: any(map(squad_metrics.normalize_answer, golds))
        for q, golds in gold.items()
    }
    return squad_metrics.applicable_threshold(f1, answers.null_odds, answerable)


def part_of(
    file: SquadFile, answers: SquadAnswers, questions: Sequence[int]
) -> tuple[SquadFile, SquadAnswers]:
    """Some questions of a file with their answers; no unusable ones."""
    chosen = tuple(file.questions[i] for i in questions)
    names = [q.question_id for q in chosen]
    own = {
        f.name: {name: getattr(answers, f.name)[name] for name in names}
        for f in dataclasses.fields(answers)
    }
    file = dataclasses.replace(file, questions=chosen, unusable={})
    return file, SquadAnswers(**own)


def evaluate_answers(
    file: SquadFile, answers: SquadAnswers, threshold: float | None
) -> dict[str, float]:
    """What the official script says about the written predictions.

    On v2.0 files also the best scores that a threshold on the null odds could
    give the best texts, what the odds are worth without one
    (`metrics.ranked_scores`), and the threshold that is used; on v1.1 files every
    question has an answer and the odds play no part.

    Args:
      file: questions with their gold answers.
      answers: see `answer_split`.
      threshold: null odds above it are written as "".
    """
    gold = file.gold_answers()
    written = with_threshold(answers, threshold).predictions
    if not file.version_2:
        return squad_metrics.evaluate_v1(gold | file.unusable, written)
    result = squad_metrics.evaluate(gold, written)
    raw = squad_predictions.final_answers(answers.nbest, answers.null_odds)
    searched = squad_metrics.evaluate(gold, raw, answers.null_odds)
    result |= {k: v for k, v in searched.items() if k.startswith("best_")}
    result |= squad_metrics.ranked_scores(gold, raw, answers.null_odds)
    if threshold is not None:
        result["null_score_diff_threshold"] = threshold
    return result
