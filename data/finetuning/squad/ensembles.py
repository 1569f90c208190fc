"""Answers of several models to the same questions, joined by their texts (L1).

A text's probability is the mean over models of that of its best span; a model
whose n-best list lacks the text gives it none. So models may have other
vocabularies, windows and lengths.
"""

import math
from collections.abc import Sequence

from data.finetuning.squad.answers import SquadAnswers
from data.finetuning.squad.predictions import (
    EMPTY_LOG_PROB,
    final_answers,
    softmax,
)


def combine(
    members: Sequence[SquadAnswers], weights: Sequence[float], n_best_size: int
) -> SquadAnswers:
    """N-best lists by text, null odds averaged.

    Args:
      weights: positive, one per member.
    """
    if len(members) == 1:
        return members[0]
    shares = [w / sum(weights) for w in weights]
    nbest, odds = {}, {}
    for question in members[0].nbest:
        nbest[question] = _join(
            [member.nbest[question] for member in members], shares
        )[:n_best_size]
        scores = [
            e["start_log_prob"] + e["end_log_prob"] for e in nbest[question]
        ]
        for entry, p in zip(nbest[question], softmax(scores), strict=True):
            entry["probability"] = p
        odds[question] = sum(
            s * member.null_odds[question]
            for s, member in zip(shares, members, strict=True)
        )
    return SquadAnswers(final_answers(nbest, odds), nbest, odds)


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
    """log of sum s exp(x) over (s, x), from below `EMPTY_LOG_PROB`."""
    top = max(x for _, x in parts)
    if top <= EMPTY_LOG_PROB:
        return EMPTY_LOG_PROB
    return top + math.log(sum(s * math.exp(x - top) for s, x in parts))
