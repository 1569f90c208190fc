"""Is a difference between two systems more than chance? (L1)."""

import dataclasses
from collections.abc import Sequence

import numpy as np


@dataclasses.dataclass(frozen=True)
class Difference:
    """A paired difference of means.

    Attributes:
      mean: of a - b over the queries.
      low, high: 95 % bootstrap interval of it.
      p: two-sided, of the paired randomisation test.
    """

    mean: float
    low: float
    high: float
    p: float
    queries: int


def compare(
    a: Sequence[float],
    b: Sequence[float],
    seed: int,
    resamples: int = 9999,
    bootstrap: int = 2000,
) -> Difference:
    """The paired randomisation test: each query's two values may be swapped.

    Args:
      resamples: swaps drawn; with 2^n below that all are tried.
    """
    from scipy import stats

    difference = np.asarray(a, np.float64) - np.asarray(b, np.float64)
    if len(difference) < 2 or not difference.any():
        mean = float(difference.mean())
        return Difference(mean, mean, mean, 1.0, len(difference))
    test = stats.permutation_test(
        (difference,),
        np.mean,
        permutation_type="samples",
        n_resamples=resamples,
        vectorized=True,
        axis=-1,
        rng=np.random.default_rng((seed, 0)),
    )
    rng = np.random.default_rng((seed, 1))
    drawn = rng.integers(0, len(difference), (bootstrap, len(difference)))
    low, high = np.percentile(difference[drawn].mean(1), [2.5, 97.5])
    return Difference(
        float(difference.mean()),
        float(low),
        float(high),
        float(test.pvalue),
        len(difference),
    )
