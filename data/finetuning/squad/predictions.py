"""Start and end beams of every window -> answers, n-best lists, null odds.

A window's beams are the `SpanModel`'s: S start positions with their
log-probabilities and, for each, E ends; entry `i * E + j` of the flat end
arrays belongs to start i. The score of a span is the sum of both; the null
odds of a question are the smallest CLS logit over its windows. Where start and
end have a logit each, they are those of BERT's program: the smallest score of
CLS as start and end over the windows, less the best answer's score.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np

from common.summary import ordered_sum
from data.finetuning.options import SquadDataOptions

# What the original writes for a question without any valid span.
EMPTY_LOG_PROB = -1e6
MAX_NULL_ODDS = 1000000


@dataclasses.dataclass(frozen=True)
class WindowBeams:
    """What the model says about one window."""

    start_log_probs: Sequence[float]  # `[S]`
    start_index: Sequence[int]  # `[S]`
    end_log_probs: Sequence[float]  # `[S * E]`, start-major
    end_index: Sequence[int]  # `[S * E]`, start-major
    cls_logit: float  # evidence that the window holds no answer


@dataclasses.dataclass(frozen=True)
class WindowText:
    """Where the tokens of one window lie in the raw paragraph."""

    # first and last character of each paragraph token of the window, `[n]`
    token_start: Sequence[int]
    token_end: Sequence[int]
    # True where this window is the one with most context, `[n]`
    max_context: Sequence[bool]


def answer_question(
    paragraph: str,
    windows: Sequence[tuple[WindowText, WindowBeams]],
    options: SquadDataOptions,
    independent: bool = False,
) -> tuple[list[dict], float]:
    """N-best answers of one question, best first, and its null odds.

    Dicts with text, probability (softmax over the list), start_log_prob and
    end_log_prob; at least one. `independent`: the model has two logits per
    token; its first beam is the span that the CLS logit was taken against.
    """
    null_odds = MAX_NULL_ODDS
    spans = []
    for text, beams in windows:
        null = beams.cls_logit
        if independent:
            null += beams.start_log_probs[0] + beams.end_log_probs[0]
        null_odds = min(null_odds, null)
        spans.extend(_valid_spans(text, beams, options))
    # Stable: equal scores stay in window, start, end order.
    spans.sort(key=lambda s: s[0] + s[1], reverse=True)
    seen, best = set(), []
    for start_log_prob, end_log_prob, first, last in spans:
        if len(best) >= options.n_best_size:
            break
        text = paragraph[first : last + 1].strip()
        if text in seen:
            continue
        seen.add(text)
        best.append((text, start_log_prob, end_log_prob))
    if not best:
        best.append(("", EMPTY_LOG_PROB, EMPTY_LOG_PROB))
    if independent:
        _, start_log_prob, end_log_prob = best[0]
        null_odds = min(
            MAX_NULL_ODDS, null_odds - (start_log_prob + end_log_prob)
        )
    probabilities = softmax([s + e for _, s, e in best])
    nbest = [
        {
            "text": text,
            "probability": probability,
            "start_log_prob": s,
            "end_log_prob": e,
        }
        for (text, s, e), probability in zip(best, probabilities, strict=True)
    ]
    return nbest, null_odds


def _valid_spans(
    text: WindowText, beams: WindowBeams, options: SquadDataOptions
) -> list[tuple[float, float, int, int]]:
    """(start score, end score, first character, last character) of a window."""
    limit = len(text.token_start) - int(options.original_last_token_bug)
    ends_per_start = len(beams.end_index) // max(1, len(beams.start_index))
    spans = []
    for i, start in enumerate(beams.start_index):
        if not 0 <= start < limit or not text.max_context[start]:
            continue
        for j in range(i * ends_per_start, (i + 1) * ends_per_start):
            end = beams.end_index[j]
            # The length is end - start + 1 tokens.
            if end >= limit or not (
                start <= end < start + options.max_answer_length
            ):
                continue
            spans.append(
                (
                    float(beams.start_log_probs[i]),
                    float(beams.end_log_probs[j]),
                    int(text.token_start[start]),
                    int(text.token_end[end]),
                )
            )
    return spans


def softmax(scores: Sequence[float]) -> list[float]:
    """Softmax in float64; [] for []."""
    if not scores:
        return []
    top = max(scores)
    exps = [math.exp(s - top) for s in scores]
    total = ordered_sum(exps)
    return [e / total for e in exps]


def max_context(
    spans: Sequence[tuple[int, int]], span_index: int
) -> np.ndarray:
    """Bool `[length]`: is this the window with most context for the token?

    The context of a token in a window is the smaller of the tokens left and
    right of it, plus 0.01 per token of the window; the first best window wins.
    `spans` are (start, length) of every window of the paragraph.
    """
    start, length = spans[span_index]
    position = np.arange(start, start + length)
    scores = []
    for first, size in spans:
        left = position - first
        right = first + size - 1 - position
        score = np.minimum(left, right) + 0.01 * size
        scores.append(np.where((left >= 0) & (right >= 0), score, -np.inf))
    return np.argmax(np.stack(scores), axis=0) == span_index


def final_answers(
    nbest: Mapping[str, list[dict]],
    null_odds: Mapping[str, float],
    threshold: float | None = None,
) -> dict[str, str]:
    """Best text per question; "" where the null odds exceed `threshold`."""
    return {
        q: ""
        if threshold is not None and null_odds[q] > threshold
        else answers[0]["text"]
        for q, answers in nbest.items()
    }
