"""The table of evaluation speed, at a size where only its form is tested."""

import numpy as np
import pytest

from benchmarks import lm_eval_speed


def test_ratios_of_a_line():
    cells = lm_eval_speed.row(800, [0.001, 0.4, 0.2])
    assert cells[4:] == ["400", "0.50", "200", "0.25", "363"]
    assert lm_eval_speed.row(10, [1, 2, 3])[-1] == ""


@pytest.mark.slow
def test_what_each_system_predicts():
    """T tokens behind A kept inputs; one for each window of A."""
    sizes = dict(n_layer=1, d_model=8, n_head=2, vocab_size=9)
    memory = lm_eval_speed.with_memory(sizes, 6, 4)
    windows = lm_eval_speed.with_windows(sizes, 6, 3)
    losses, kept = memory[0]()
    assert losses.shape == [1, memory[1]] == [1, 4]
    assert kept[0].shape == [1, 6, 8]
    assert windows[0]().shape == [windows[1], 1] == [3, 1]
    times = lm_eval_speed.seconds_per_token([memory, windows], 2)
    assert np.isfinite(times).all() and min(times) > 0
