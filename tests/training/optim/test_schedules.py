"""Learning rates against the original's and by hand."""

import numpy as np
import pytest
import tensorflow as tf

from common.errors import UserError
from training.optim.schedules import Schedule
from training.run_options import OptimizerOptions

# The cases of golden/optim/lr.npz: rate, warm-up, steps, method, ratio.
CASES = {
    "lr_0": (1e-3, 0, 100, "poly", 0.0),
    "lr_1": (1e-3, 10, 100, "poly", 0.0),
    "lr_2": (1e-3, 10, 100, "poly", 0.1),
    "lr_3": (1e-3, 0, 100, "cos", 0.0),
    "lr_4": (1e-3, 10, 100, "cos", 0.05),
    "lr_5": (5e-5, 10, 100, "poly", 0.0),
}


def make(rate, warmup, steps, method, ratio):
    options = OptimizerOptions(
        learning_rate=rate,
        warmup_steps=warmup,
        decay_method=method,
        min_lr_ratio=ratio,
    )
    return Schedule(options, steps)


@pytest.mark.shared
@pytest.mark.parametrize("case", CASES)
def test_rates_are_the_originals(golden, case):
    reference = np.load(golden / "optim" / "lr.npz")
    schedule = make(*CASES[case])
    ours = [float(schedule(tf.constant(s))) for s in reference["steps"]]
    # Rounding near the end is relative to the peak.
    atol = 2e-7 * CASES[case][0]
    np.testing.assert_allclose(ours, reference[case], rtol=2e-6, atol=atol)


def test_first_update_of_a_warm_up_has_rate_zero():
    schedule = make(0.5, 4, 12, "poly", 0.0)
    rates = [float(schedule(tf.constant(s, tf.int64))) for s in range(13)]
    expected = [0, 0.125, 0.25, 0.375] + [0.5 * (8 - i) / 8 for i in range(9)]
    np.testing.assert_allclose(rates, expected, atol=1e-7)


def test_constant_stays_and_nothing_falls_below_the_floor():
    assert float(make(0.5, 0, 9, "constant", 0.0)(tf.constant(400))) == 0.5
    assert float(make(0.5, 0, 9, "cos", 0.25)(tf.constant(400))) == 0.125


@pytest.mark.parametrize(
    "wrong",
    [
        {"learning_rate": 0.0},
        {"warmup_steps": -1},
        {"decay_method": "cosine"},
        {"min_lr_ratio": 1.5},
        {"beta2": 1.0},
        {"lr_layer_decay_rate": 0.0},
        {"clip": -1.0},
    ],
)
def test_a_wrong_setting_is_named(wrong):
    with pytest.raises(UserError, match=f"--(adam_)?{next(iter(wrong))} "):
        OptimizerOptions(**wrong)
