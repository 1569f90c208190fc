"""How long a pretraining stays on the unigram plateau."""

import numpy as np
import pytest

from studies import plateau
from training.reporting.loss_log import LossLog


def test_the_numbers_of_a_run(tmp_path):
    losses = np.concatenate([np.full(100, 6.5), np.full(100, 5.0)])
    LossLog(str(tmp_path), 0).append(1, ["loss"], losses[:, np.newaxis])
    found = plateau.measured(str(tmp_path), 6.5)
    # After k of the last 100 the mean of 20 is 6.5 - 1.5 k / 20 < 6.0.
    assert found == {
        "step": 107,
        "share": 107 / 200,
        "left": 1,
        "gain": pytest.approx(1.5),
    }


def test_a_run_that_never_leaves_counts_all_its_steps(tmp_path):
    losses = np.full([50, 1], 6.25)
    LossLog(str(tmp_path), 0).append(1, ["loss"], losses)
    found = plateau.measured(str(tmp_path), 6.5)
    assert found == {"step": 50, "share": 1.0, "left": 0, "gain": 0.25}
