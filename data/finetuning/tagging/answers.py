"""What a model says about tagged texts: logits -> tags or spans -> files (L2)."""

import dataclasses
import json
from collections.abc import Sequence

import numpy as np

from data.finetuning import metrics as task_metrics
from data.finetuning.squad.features import TokenizedParagraph
from data.finetuning.tagging import features, metrics
from data.finetuning.tagging.examples import TaggedText
from data.finetuning.tagging.metrics import MajorityBaseline


@dataclasses.dataclass(frozen=True)
class Answers:
    """What a model says about a split.

    Attributes:
      tags: of each text, per unit (CoNLL); () for JSON lines.
      spans: of each text, (start, end, label); () for CoNLL.
      confidence: of each text, probability of the label per unit or span.
    """

    tags: list[list[str]]
    spans: list[list[tuple[int, int, str]]]
    confidence: list[list[float]]


def answer_pieces(
    examples: Sequence[TaggedText],
    pieces_of: Sequence[TokenizedParagraph],
    scores: Sequence[np.ndarray],
    labels: Sequence[str],
) -> Answers:
    """Tags or spans of every text from its pieces' logits [pieces, Y]."""
    answers = Answers([], [], [])
    for example, pieces, score in zip(examples, pieces_of, scores, strict=True):
        best = task_metrics.softmax(score).max(-1) if len(score) else score
        if example.words:
            chosen = features.word_answers(example, pieces, score)
            places = features.unit_pieces(example.units, pieces)
            answers.tags.append([labels[i] for i in chosen])
            answers.spans.append([])
            starts = places
        else:
            spans = features.span_answers(example, pieces, score, labels)
            answers.tags.append([])
            answers.spans.append(spans)
            starts = features.unit_pieces([s[:2] for s in spans], pieces)
        answers.confidence.append(
            [float(best[p]) if p >= 0 and len(best) else 0.0 for p in starts]
        )
    return answers


def gold_and_guesses(
    examples: Sequence[TaggedText],
    tags: Sequence[Sequence[str]],
    spans: Sequence[Sequence[tuple[int, int, str]]],
) -> tuple[list[list[str]], list[list[str]]]:
    """Tags to compare: per token of CoNLL files, else per character."""
    gold, guesses = [], []
    for example, guess, marked in zip(examples, tags, spans, strict=True):
        if example.words:
            gold.append(list(example.tags or ()))
            guesses.append(list(guess))
            continue
        wanted = [
            (s, e, t)
            for (s, e), t in zip(example.units, example.tags or (), strict=True)
        ]
        gold.append(metrics.character_tags(example.text, wanted))
        guesses.append(metrics.character_tags(example.text, marked))
    return gold, guesses


def baseline_guesses(
    examples: Sequence[TaggedText], baseline: MajorityBaseline
) -> tuple[list[list[str]], list[list[str]]]:
    """`gold_and_guesses` of the most frequent tag per word."""
    guesses = [baseline.guess(e) for e in examples]
    return gold_and_guesses(
        examples,
        [g if e.words else [] for e, g in zip(examples, guesses, strict=True)],
        [[] if e.words else g for e, g in zip(examples, guesses, strict=True)],
    )


def prediction_text(examples: Sequence[TaggedText], answers: Answers) -> str:
    """The file of predictions, in the layout of the input.

    CoNLL: token, gold tag (where known), guess; JSON lines: `id` (or the row's
    number), `spans` with `confidence`, and `gold` where known.
    """
    lines = []
    for example, tags, spans, sure in zip(
        examples, answers.tags, answers.spans, answers.confidence, strict=True
    ):
        if example.words:
            for i, (start, end) in enumerate(example.units):
                gold = [example.tags[i]] if example.tags else []
                fields = [example.text[start:end], *gold, tags[i]]
                lines.append("\t".join(fields))
            lines.append("")
            continue
        row = {"id": example.guid, "text": example.text}
        row["spans"] = _span_rows(spans, sure)
        if example.tags is not None:
            row["gold"] = [
                {"start": s, "end": e, "label": t}
                for (s, e), t in zip(example.units, example.tags, strict=True)
            ]
        lines.append(json.dumps(row, ensure_ascii=False))
    return "\n".join(lines) + "\n"


def _span_rows(spans, confidence) -> list[dict]:
    return [
        {"start": s, "end": e, "label": t, "confidence": round(p, 6)}
        for (s, e, t), p in zip(spans, confidence, strict=True)
    ]
