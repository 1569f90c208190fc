"""SQuAD exact match, F1, best threshold, average precision.

The definition of the official v2.0 evaluation (v1.1 is the same without
unanswerable questions). Scores are in percent. By question id: `answers`, the
gold texts, none of an unanswerable question; `predictions`, "" = no answer;
`null_odds`, evidence for "no answer"; `answerable`, whether it has an answer.

>>> normalize_answer("The  Cat!")
'cat'
>>> f1_score("x y z", "z y x w")
0.8571428571428571
"""

import collections
import re
import string
from collections.abc import Iterable, Mapping

from common.summary import ordered_sum

# Answers nothing: below all null odds.
LOWEST_THRESHOLD = -1e6
_ARTICLES = re.compile(r"\b(a|an|the)\b", re.UNICODE)
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalize_answer(text: str) -> str:
    """Lower case, no ASCII punctuation, no articles, single spaces."""
    text = text.lower().translate(_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", text).split())


def exact_match(gold: str, answer: str) -> int:
    """1 when the normalised texts are equal."""
    return int(normalize_answer(gold) == normalize_answer(answer))


def f1_score(gold: str, answer: str) -> float:
    """Token F1; when one side is empty it is 1 only if both are."""
    gold_tokens = normalize_answer(gold).split()
    tokens = normalize_answer(answer).split()
    if not gold_tokens or not tokens:
        return int(gold_tokens == tokens)
    common = collections.Counter(gold_tokens) & collections.Counter(tokens)
    same = sum(common.values())
    if same == 0:
        return 0
    precision = same / len(tokens)
    recall = same / len(gold_tokens)
    return 2 * precision * recall / (precision + recall)


def raw_scores(
    answers: Mapping[str, Iterable[str]], predictions: Mapping[str, str]
) -> tuple[dict[str, float], dict[str, float]]:
    """Best exact match and F1 over the gold answers of each question id.

    No gold text left after normalisation means that the right answer is the
    empty text. Questions without a prediction are left out.
    """
    exact, f1 = {}, {}
    for question_id, golds in answers.items():
        if question_id not in predictions:
            continue
        golds = [g for g in golds if normalize_answer(g)] or [""]
        answer = predictions[question_id]
        exact[question_id] = max(exact_match(g, answer) for g in golds)
        f1[question_id] = max(f1_score(g, answer) for g in golds)
    return exact, f1


def apply_threshold(
    scores: Mapping[str, float],
    null_odds: Mapping[str, float],
    answerable: Mapping[str, bool],
    threshold: float,
) -> dict[str, float]:
    """Scores when null odds above `threshold` mean "no answer"."""
    return {
        q: float(not answerable[q]) if null_odds[q] > threshold else score
        for q, score in scores.items()
    }


def best_threshold(
    predictions: Mapping[str, str],
    scores: Mapping[str, float],
    null_odds: Mapping[str, float],
    answerable: Mapping[str, bool],
) -> tuple[float, float]:
    """Best total in percent and its threshold.

    As in the official script the search starts from "no answer to anything"
    at threshold 0.0 and takes the questions in order of null odds (ties in
    input order, each one a candidate).
    """
    current = sum(not has for has in answerable.values())
    best, threshold = current, 0.0
    for question_id in sorted(null_odds, key=lambda q: null_odds[q]):
        if question_id not in scores:
            continue
        if answerable[question_id]:
            current += scores[question_id]
        elif predictions[question_id]:
            current -= 1
        if current > best:
            best, threshold = current, null_odds[question_id]
    return 100.0 * best / max(1, len(scores)), threshold


def applicable_threshold(
    scores: Mapping[str, float],
    null_odds: Mapping[str, float],
    answerable: Mapping[str, bool],
) -> float:
    """The threshold whose answers have the best total, for other questions.

    `best_threshold` names the odds of the last answered question, or 0.0 when
    answering nothing is best, which "null odds above it mean no answer" does
    not turn back into those answers: questions of equal odds go one way, and
    0.0 answers what lies below. Here only applied thresholds are compared. The
    result is midway to the next odds, so that rounding flips no answer.
    """
    order = sorted(scores, key=lambda q: null_odds[q])
    total = sum(not answerable[q] for q in order)
    best, threshold = total, LOWEST_THRESHOLD
    for rank, question_id in enumerate(order):
        total += scores[question_id] - (not answerable[question_id])
        odds = null_odds[question_id]
        following = odds + 1.0
        if rank + 1 < len(order):
            following = null_odds[order[rank + 1]]
        if total > best and following > odds:
            best, threshold = total, odds + 0.5 * (following - odds)
    return float(threshold)


def has_answer_mean(
    scores: Mapping[str, float],
    null_odds: Mapping[str, float],
    answerable: Mapping[str, bool],
) -> float:
    """Mean score (0 to 1) over questions with an answer; 0.0 without any.

    Summed by rising null odds as in the official script, so that the last bit
    agrees; without answerable questions the original divides by zero.
    """
    count = sum(answerable.values())
    order = sorted(null_odds, key=lambda q: null_odds[q])
    total = ordered_sum(
        scores[q] for q in order if answerable[q] and q in scores
    )
    return total / count if count else 0.0


def average_precision(
    scores: Mapping[str, float],
    null_odds: Mapping[str, float],
    answerable: Mapping[str, bool],
) -> float:
    """Area under precision-recall, questions taken by rising null odds."""
    positives = sum(answerable.values())
    if not positives:
        return 0.0
    order = sorted(null_odds, key=lambda q: null_odds[q])
    hits = area = recall_before = 0.0
    for rank, question_id in enumerate(order, 1):
        if answerable[question_id]:
            hits += scores[question_id]
        recall = hits / positives
        last = rank == len(order)
        if last or null_odds[question_id] != null_odds[order[rank]]:
            area += hits / rank * (recall - recall_before)
            recall_before = recall
    return 100.0 * area


def ranked_scores(
    answers: Mapping[str, list[str]],
    predictions: Mapping[str, str],
    null_odds: Mapping[str, float],
) -> dict[str, float]:
    """What the null odds are worth, without a threshold.

    has_ans_exact, has_ans_f1 (0 to 1, as the original prints them),
    pr_exact_ap, pr_f1_ap (percent, the official script's).
    """
    answerable = {q: bool(golds) for q, golds in answers.items()}
    result = {}
    for name, scores in zip(
        ("exact", "f1"), raw_scores(answers, predictions), strict=True
    ):
        ranked = scores, null_odds, answerable
        result[f"has_ans_{name}"] = has_answer_mean(*ranked)
        result[f"pr_{name}_ap"] = average_precision(*ranked)
    return result


def evaluate(
    answers: Mapping[str, list[str]],
    predictions: Mapping[str, str],
    null_odds: Mapping[str, float] | None = None,
    threshold: float = 1.0,
) -> dict[str, float]:
    """All numbers of the official script, under its names.

    exact, f1, total, HasAns_*, NoAns_* (only where there are such questions)
    and, with null odds, best_exact, best_exact_thresh, best_f1, best_f1_thresh.
    Without null odds (question id -> evidence for "no answer") nothing is
    turned into "no answer" and no threshold is searched.
    """
    answerable = {q: bool(golds) for q, golds in answers.items()}
    exact, f1 = raw_scores(answers, predictions)
    odds = dict.fromkeys(answers, 0.0) if null_odds is None else null_odds
    exact_t = apply_threshold(exact, odds, answerable, threshold)
    f1_t = apply_threshold(f1, odds, answerable, threshold)
    result = _means("", exact_t, f1_t, list(exact_t))
    for prefix, has in (("HasAns_", True), ("NoAns_", False)):
        if chosen := [q for q in exact_t if answerable[q] is has]:
            result |= _means(prefix, exact_t, f1_t, chosen)
    if null_odds is not None:
        for name, scores in (("exact", exact), ("f1", f1)):
            best, at = best_threshold(
                predictions, scores, null_odds, answerable
            )
            result[f"best_{name}"] = best
            result[f"best_{name}_thresh"] = at
    return result


def evaluate_v1(
    answers: Mapping[str, list[str]], predictions: Mapping[str, str]
) -> dict[str, float]:
    """The numbers of the official v1.1 script.

    Every question counts, those without a prediction as wrong, and texts in
    which nothing is left after normalisation share no token.
    """
    exact, f1 = {}, {}
    for question_id, golds in answers.items():
        exact[question_id] = f1[question_id] = 0.0
        answer = predictions.get(question_id)
        if answer is None or not golds:
            continue
        exact[question_id] = max(exact_match(g, answer) for g in golds)
        f1[question_id] = max(
            f1_score(g, answer) if normalize_answer(answer) else 0.0
            for g in golds
        )
    return _means("", exact, f1, list(answers))


def _means(
    prefix: str,
    exact: Mapping[str, float],
    f1: Mapping[str, float],
    questions: list[str],
) -> dict[str, float]:
    total = len(questions)
    means = {
        f"{prefix}{name}": 100.0
        * ordered_sum(map(of.get, questions))
        / max(1, total)
        for name, of in (("exact", exact), ("f1", f1))
    }
    return means | {f"{prefix}total": total}
