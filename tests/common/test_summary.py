"""Means, deviations, and when a difference counts."""

import math

import pytest

from common import summary


def test_describe_by_hand():
    of = summary.describe([1.0, 2.0, 6.0])
    assert (of["n"], of["median"], of["mean"]) == (3, 2.0, 3.0)
    assert of["sd"] == pytest.approx(math.sqrt(7))
    assert (of["least"], of["most"]) == (1.0, 6.0)
    assert summary.describe([4.0])["sd"] == 0.0


def test_a_gains_standard_error_by_hand():
    """Variances 2 of two values and 8/3 of four."""
    ours, theirs = [4.0, 6.0], [0.0, 4.0, 2.0, 2.0]
    assert summary.describe(theirs)["sd"] ** 2 == pytest.approx(8 / 3)
    gain, error = summary.gain(ours, theirs)
    assert gain == 3.0
    assert error == pytest.approx(math.sqrt(2 / 2 + 8 / 3 / 4))
    assert summary.gain(theirs, ours) == (-3.0, error)


def test_sums_have_the_same_bits_on_every_python():
    values = [0.1, 0.2, 0.3]
    assert summary.ordered_sum(values) == 0.1 + 0.2 + 0.3 != math.fsum(values)
    assert summary.ordered_sum(v for v in [1e16, 1.0, -1e16]) == 0.0
    assert summary.ordered_sum([]) == 0


def test_a_perplexity_is_finite_whatever_the_loss():
    assert summary.perplexity(math.log(7.0)) == pytest.approx(7.0)
    assert summary.perplexity(1e4) == math.exp(700.0)
    assert math.isnan(summary.perplexity(math.nan))


@pytest.mark.parametrize(
    "difference,error,verdict",
    [
        (0.5, 0.2, "better"),
        (0.4, 0.2, "not shown"),
        (-0.4, 0.2, "not shown"),
        (-0.5, 0.2, "worse"),
        (0.0, 0.0, "not shown"),
    ],
)
def test_a_difference_counts_beyond_two_standard_errors(
    difference, error, verdict
):
    assert summary.verdict(difference, error) == verdict
