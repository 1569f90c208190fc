"""Taggers of other vocabularies about the same texts, as one tagger (L1).

A token (CoNLL) has in each model the probabilities of the piece that tells it,
and their mean. For spans (JSON lines) the text is cut wherever any model begins
or ends a piece; a part has the probabilities of each model's piece around it,
as I- where the part is not the piece's first, since one piece begins one span.
Models with the same pieces are therefore averaged piece by piece.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from data.finetuning import ensembles, metrics
from data.finetuning.squad.features import TokenizedParagraph
from data.finetuning.tagging import features
from data.finetuning.tagging.answers import Answers, answer_pieces
from data.finetuning.tagging.examples import TaggedText


@dataclasses.dataclass(frozen=True)
class Member:
    """What one model says about a split.

    Attributes:
      scores: of each text, logits [pieces, Y].
    """

    examples: Sequence[TaggedText]
    pieces: list[TokenizedParagraph]
    scores: list[np.ndarray]
    answers: Answers


def combine(
    members: Sequence[Member], weights: Sequence[float], labels: Sequence[str]
) -> Answers:
    """Tags or spans of the mean probabilities; one model's are its own.

    Args:
      weights: positive, one per member.
      labels: tags in the order of the logits, of all members.
    """
    if len(members) == 1:
        return members[0].answers
    inside = inside_labels(labels)
    units, scores = [], []
    for number, example in enumerate(members[0].examples):
        of_members = [(m.pieces[number], m.scores[number]) for m in members]
        if example.words:
            unit, shares = _tokens(example, of_members, weights)
        else:
            unit, shares = _parts(example, of_members, weights, inside)
        units.append(unit)
        scores.append(np.log(np.maximum(shares, 1e-300)))
    return answer_pieces(members[0].examples, units, scores, labels)


def inside_labels(labels: Sequence[str]) -> np.ndarray:
    """Label id -> that of the rest of its piece: I-x for B-x, int [Y]."""
    ids = {name: i for i, name in enumerate(labels)}
    return np.array(
        [
            ids.get(f"I-{name[2:]}", i) if name.startswith("B-") else i
            for i, name in enumerate(labels)
        ],
        np.int64,
    )


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
        shares.append(_shares(scores)[places])
    return _as_pieces(example.units), ensembles.mean(shares, weights)


def _parts(example: TaggedText, found, weights, inside: np.ndarray):
    """The parts of a text as pieces, and their mean probabilities [n, Y]."""
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
        return _as_pieces(()), np.zeros((0, len(inside)))
    units = _as_pieces(parts)
    starts = features.first_characters(text, units)
    total = np.zeros((len(parts), len(inside)))
    weight = np.zeros(len(parts))
    # A part of white space alone lies at the end: no piece of it is asked.
    asked = [(int(b), int(b) + 1) for b in starts]
    for (pieces, scores), first, w in zip(found, firsts, weights, strict=True):
        places = features.unit_pieces(asked, pieces)
        there = np.flatnonzero((places >= 0) & (starts < len(text)))
        shares = _shares(scores)[places[there]]
        later = np.flatnonzero(first[places[there]] < starts[there])
        moved = np.zeros_like(shares[later])
        np.add.at(moved.T, inside, shares[later].T)
        shares[later] = moved
        total[there] += w * shares
        weight[there] += w
    kept = np.flatnonzero(weight)
    units = _as_pieces([parts[i] for i in kept])
    return units, total[kept] / weight[kept, np.newaxis]


def _shares(scores: np.ndarray) -> np.ndarray:
    """Probabilities, float64."""
    return metrics.softmax(np.asarray(scores, np.float64))


def _as_pieces(units: Sequence[tuple[int, int]]) -> TokenizedParagraph:
    """Character spans as if the tokenizer had made them."""
    array = np.array(units, np.int32).reshape(-1, 2)
    ids = np.zeros(len(array), np.int32)
    return TokenizedParagraph(ids, array[:, 0], array[:, 1])
