"""Several models' outputs as one model's.

Means are taken of probabilities and of values, never of logits: members may be
calibrated unlike. What comes out stands for logits whose softmax (sigmoid) is
the mean, so every metric and every file is made as of one model. One model
alone keeps its outputs to the bit.
"""

from collections.abc import Sequence

import numpy as np

from common.summary import ordered_sum
from data.finetuning import metrics


def combine(
    head: str, members: Sequence[dict], weights: Sequence[float]
) -> dict[str, np.ndarray]:
    """`logits` of all members together.

    The members' `logits` are `[N, Y]` (`[N]` of values), of the same examples
    in the same order; of a head of classes, labels, options or values.
    """
    if len(members) == 1:
        return dict(members[0])
    logits = [np.asarray(m["logits"], np.float64) for m in members]
    if head == "regression":
        return {"logits": mean(logits, weights)}
    if head == "multi_label":
        shares = mean([metrics.sigmoid(x) for x in logits], weights)
        with np.errstate(divide="ignore"):
            logits = np.log(shares) - np.log1p(-shares)
        return {"logits": np.clip(logits, -700.0, 700.0)}
    shares = mean([metrics.softmax(x) for x in logits], weights)
    return {"logits": np.log(np.maximum(shares, 1e-300))}


def mean(arrays: Sequence[np.ndarray], weights: Sequence[float]) -> np.ndarray:
    """The weighted mean of arrays of one shape, float64."""
    total = sum(w * x for w, x in zip(weights, arrays, strict=True))
    # Rounded as the arrays are: a mean of ones is 1.
    return total / ordered_sum(weights)


def forward_selection(count: int, score) -> tuple[list[int], list[float]]:
    """Members in the order in which they are taken, and the score of each prefix.

    Begins with the best one and takes the one that helps most, as long as it
    helps (Caruana et al. 2004, without repeats); the first of equals. More is
    better in `score`, NaN the worst.
    """

    def scored(chosen: list[int]) -> float:
        value = float(score(chosen))
        return -np.inf if np.isnan(value) else value

    chosen: list[int] = []
    scores: list[float] = []
    while rest := [i for i in range(count) if i not in chosen]:
        score_with = {i: scored([*chosen, i]) for i in rest}
        best = max(rest, key=lambda i: (score_with[i], -i))
        if scores and score_with[best] <= scores[-1]:
            break
        chosen.append(best)
        scores.append(score_with[best])
    return chosen, scores
