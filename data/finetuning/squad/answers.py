"""Beams of windows -> answers by question -> the official numbers."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from common.summary import ordered_sum
from data.finetuning.options import SquadDataOptions
from data.finetuning.squad import features as squad_features
from data.finetuning.squad import metrics as squad_metrics
from data.finetuning.squad import predictions as squad_predictions
from data.finetuning.squad.examples import SquadFile
from data.finetuning.squad.windows import SquadSplit

BEAM_FIELDS = (
    "start_top_log_probs",
    "start_top_index",
    "end_top_log_probs",
    "end_top_index",
    "cls_logits",
)


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
    independent: bool = False,
) -> SquadAnswers:
    """Answers of every question from the beams of every window.

    Every question is answered with its best text; see `with_threshold`. The
    first dimension of `BEAM_FIELDS` are the windows in order. `independent` as
    in `squad_predictions.answer_question`.
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
    nbest, odds = {}, {}
    for question, windows in zip(split.file.questions, grouped, strict=True):
        paragraph = split.file.paragraphs[question.paragraph]
        nbest[question.question_id], odds[question.question_id] = (
            squad_predictions.answer_question(
                paragraph, windows, options, independent
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
    """Header and one row per question: gold texts, prediction, F1, texts."""
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

    Raises ValueError for a v1.1 file, where it has no meaning.
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
    (`metrics.ranked_scores`), and the threshold that is used; on v1.1 files
    every question has an answer and the odds play no part. Null odds above
    `threshold` are written as "".
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


def combine(
    members: Sequence[SquadAnswers], weights: Sequence[float], n_best_size: int
) -> SquadAnswers:
    """Answers of several models to the same questions, joined by their texts.

    A text's probability is the mean over models of that of its best span; a
    model whose n-best list lacks the text gives it none. So models may have
    other vocabularies, windows and lengths. Null odds are averaged.
    """
    if len(members) == 1:
        return members[0]
    total = ordered_sum(weights)
    shares = [w / total for w in weights]
    nbest, odds = {}, {}
    for question in members[0].nbest:
        nbest[question] = _join(
            [member.nbest[question] for member in members], shares
        )[:n_best_size]
        scores = [
            e["start_log_prob"] + e["end_log_prob"] for e in nbest[question]
        ]
        for entry, p in zip(
            nbest[question], squad_predictions.softmax(scores), strict=True
        ):
            entry["probability"] = p
        odds[question] = ordered_sum(
            s * member.null_odds[question]
            for s, member in zip(shares, members, strict=True)
        )
    return SquadAnswers(
        squad_predictions.final_answers(nbest, odds), nbest, odds
    )


def _join(lists: Sequence[list[dict]], shares: Sequence[float]) -> list[dict]:
    """Entries of all texts, best first; the first seen of equals."""
    by_text: dict[str, list[tuple[float, dict]]] = {}
    for share, entries in zip(shares, lists, strict=True):
        for entry in entries:
            by_text.setdefault(entry["text"], []).append((share, entry))
    joined = []
    for text, parts in by_text.items():
        start = _log_mean([(s, e["start_log_prob"]) for s, e in parts])
        both = _log_mean(
            [(s, e["start_log_prob"] + e["end_log_prob"]) for s, e in parts]
        )
        joined.append(
            {
                "text": text,
                "probability": 0.0,
                "start_log_prob": start,
                "end_log_prob": both - start,
            }
        )
    joined.sort(
        key=lambda e: e["start_log_prob"] + e["end_log_prob"], reverse=True
    )
    return joined


def _log_mean(parts: Sequence[tuple[float, float]]) -> float:
    """log of sum s exp(x) over (s, x), from below `squad_predictions.EMPTY_LOG_PROB`."""
    top = max(x for _, x in parts)
    if top <= squad_predictions.EMPTY_LOG_PROB:
        return squad_predictions.EMPTY_LOG_PROB
    total = ordered_sum(s * math.exp(x - top) for s, x in parts)
    return top + math.log(total)
