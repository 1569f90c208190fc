"""What runs of one thing came to."""

import functools
import math
import operator
import statistics
from collections.abc import Iterable, Sequence


def describe(values: Sequence[float]) -> dict[str, float]:
    """n, median, mean, sample deviation (0 of one), least and most.

    >>> describe([1.0, 2.0, 6.0])["median"]
    2.0
    """
    return {
        "n": len(values),
        "median": statistics.median(values),
        "mean": statistics.fmean(values),
        "sd": statistics.stdev(values) if len(values) > 1 else 0.0,
        "least": min(values),
        "most": max(values),
    }


def ordered_sum(values: Iterable[float]) -> float:
    """The values, added one after the other; 0 of none.

    `sum` does so up to Python 3.11. Later versions carry the rounding errors of
    floats along, and differ in the last bit from it and from sums of arrays.

    >>> ordered_sum([1e16, 1.0, -1e16])
    0.0
    """
    return functools.reduce(operator.add, values, 0)


def perplexity(nats: float) -> float:
    """exp of a mean loss per token, at most exp(700): JSON has no infinity.

    >>> perplexity(0.0)
    1.0
    """
    return math.exp(min(nats, 700.0))


def gain(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float]:
    """(mean of ours less mean of theirs, its standard error), two or more each.

    >>> gain([2.0, 4.0], [1.0, 1.0])
    (2.0, 1.0)
    """
    of = describe(ours), describe(theirs)
    error = math.sqrt(sum(d["sd"] ** 2 / d["n"] for d in of))
    return of[0]["mean"] - of[1]["mean"], error


def verdict(difference: float, standard_error: float) -> str:
    """better or worse: a difference of more than two standard errors."""
    if abs(difference) <= 2 * standard_error:
        return "not shown"
    return "better" if difference > 0 else "worse"
