"""The randomisation test against all signs."""

import itertools

import numpy as np
import pytest

from data.finetuning.ranking import significance


@pytest.mark.shared
def test_randomisation_test_by_brute_force():
    a, b = [0.9, 0.4, 0.8, 0.7, 0.3], [0.5, 0.5, 0.3, 0.6, 0.1]
    difference = np.subtract(a, b)
    signs = np.array(list(itertools.product([1, -1], repeat=5)))
    means = (signs * difference).mean(1)
    exact = np.mean(np.abs(means) >= abs(difference.mean()) - 1e-12)
    found = significance.compare(a, b, 3)
    assert found.p == pytest.approx(exact)
    assert found.mean == pytest.approx(difference.mean())
    assert found.low < found.mean < found.high
    assert significance.compare(a, a, 3).p == 1.0
    rng = np.random.default_rng(0)
    a, b = rng.random((2, 40))
    once = significance.compare(a, b, 3)
    assert once == significance.compare(a, b, 3)
    assert once.p != significance.compare(a, b, 4).p
