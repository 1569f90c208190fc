"""What a model says about tagged texts: logits -> tags or spans -> files."""

import dataclasses
import json
from collections.abc import Sequence

import numpy as np

from data.finetuning import ensembles
from data.finetuning import metrics as task_metrics
from data.finetuning.squad.features import TokenizedParagraph
from data.finetuning.tagging import features, metrics
from data.finetuning.tagging.examples import TaggedText
from data.finetuning.tagging.metrics import MajorityBaseline


@dataclasses.dataclass(frozen=True)
class Answers:
    """What a model says about a split."""

    tags: list[list[str]]  # of each text, per unit (CoNLL); () for JSON lines
    # of each text, (start, end, label); () for CoNLL
    spans: list[list[tuple[int, int, str]]]
    # of each text, probability of the label per unit or span
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


@dataclasses.dataclass(frozen=True)
class Member:
    """What one model says about a split."""

    examples: Sequence[TaggedText]
    pieces: list[TokenizedParagraph]
    scores: list[np.ndarray]  # of each text, logits [pieces, Y]
    answers: Answers


def combine(
    members: Sequence[Member], weights: Sequence[float], labels: Sequence[str]
) -> Answers:
    """Tags or spans of the mean probabilities; one model's are its own.

    A token (CoNLL) has in each model the probabilities of the piece that tells
    it. For spans (JSON lines) the text is cut wherever any model begins or ends
    a piece; a part has the probabilities of each model's piece around it. A
    part that is not the piece's first begins no span, and one that is not its
    last ends none: one piece begins and ends one span.
    """
    if len(members) == 1:
        return members[0].answers
    cut = _renamed(labels, _BEFORE), _renamed(labels, _BEHIND)
    units, scores = [], []
    for number, example in enumerate(members[0].examples):
        of_members = [(m.pieces[number], m.scores[number]) for m in members]
        if example.words:
            unit, shares = _tokens(example, of_members, weights)
        else:
            unit, shares = _parts(example, of_members, weights, cut)
        units.append(unit)
        scores.append(np.log(np.maximum(shares, 1e-300)))
    return answer_pieces(members[0].examples, units, scores, labels)


# Of a piece that is cut: marks of the parts before the last one, and behind
# the first one.
_BEFORE = {"S-": "B-", "U-": "B-", "E-": "I-", "L-": "I-"}
_BEHIND = {"B-": "I-", "S-": "E-", "U-": "L-"}


def _renamed(labels: Sequence[str], marks: dict[str, str]) -> np.ndarray:
    """Label id -> that of the label with another mark, int [Y]."""
    ids = {name: i for i, name in enumerate(labels)}
    others = [marks.get(name[:2], name[:2]) + name[2:] for name in labels]
    return np.array([ids.get(o, i) for i, o in enumerate(others)], np.int64)


def _rename(shares: np.ndarray, rows: np.ndarray, ids: np.ndarray) -> None:
    """Moves the probabilities [n, Y] of these rows to other labels."""
    moved = np.zeros_like(shares[rows])
    np.add.at(moved.T, ids, shares[rows].T)
    shares[rows] = moved


def _tokens(example: TaggedText, found, weights):
    """The tokens as pieces, and their mean probabilities [units, Y]."""
    shares = []
    for pieces, scores in found:
        if not len(scores):  # as a model alone: the first label
            only = np.zeros((len(example.units), scores.shape[-1]))
            only[:, :1] = 1.0
            shares.append(only)
            continue
        places = features.told_by(example.units, pieces)
        shares.append(task_metrics.softmax(scores)[places])
    return _as_pieces(example.units), ensembles.mean(shares, weights)


def _parts(example: TaggedText, found, weights, cut):
    """The parts of a text as pieces, and their mean probabilities [n, Y].

    `cut`: the label ids of a piece's parts before the last, behind the first.
    """
    text, cuts, firsts = example.text, {0}, []
    for pieces, _ in found:
        first = features.first_characters(text, pieces)
        firsts.append(first)
        inside_text = first < len(text)
        cuts |= set(first[inside_text].tolist()) | set(
            pieces.end[inside_text].tolist()
        )
    bounds = sorted(cuts | {len(text)})
    parts = list(zip(bounds, bounds[1:], strict=False))
    if not parts:
        return _as_pieces(()), np.zeros((0, len(cut[0])))
    units = _as_pieces(parts)
    starts = features.first_characters(text, units)
    total = np.zeros((len(parts), len(cut[0])))
    weight = np.zeros(len(parts))
    # A part of white space alone lies at the end: no piece of it is asked.
    asked = [(int(b), int(b) + 1) for b in starts]
    for (pieces, scores), first, w in zip(found, firsts, weights, strict=True):
        places = features.unit_pieces(asked, pieces)
        there = np.flatnonzero((places >= 0) & (starts < len(text)))
        piece = places[there]
        shares = task_metrics.softmax(scores)[piece]
        before = np.flatnonzero(piece[:-1] == piece[1:])
        _rename(shares, before, cut[0])
        _rename(shares, np.flatnonzero(first[piece] < starts[there]), cut[1])
        total[there] += w * shares
        weight[there] += w
    kept = np.flatnonzero(weight)
    units = _as_pieces([parts[i] for i in kept])
    return units, total[kept] / weight[kept, np.newaxis]


def _as_pieces(units: Sequence[tuple[int, int]]) -> TokenizedParagraph:
    """Character spans as if the tokenizer had made them."""
    array = np.array(units, np.int32).reshape(-1, 2)
    ids = np.zeros(len(array), np.int32)
    return TokenizedParagraph(ids, array[:, 0], array[:, 1])
