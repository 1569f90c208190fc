"""What several runs of one thing came to (L0)."""

import statistics
from collections.abc import Sequence


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
