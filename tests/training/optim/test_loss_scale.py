"""Steps that overflow in float16 are left out; the scale follows them."""

import numpy as np
import pytest
import tensorflow as tf

from training.optim.loss_scale import GROWTH_STEPS, MOST, LossScale
from training.optim.optimizer import AdamW, build_optimizer
from training.optim.schedules import Schedule
from training.optim.variable_groups import build_groups
from training.run_options import OptimizerOptions


def test_loss_scale_skips_an_overflow_and_grows_later():
    options = OptimizerOptions(learning_rate=0.1, clip=0.0)
    variables = {"model/lm_loss/bias": tf.Variable([1.0, 2.0])}
    optimizer = AdamW(
        options,
        Schedule(options, 10),
        variables,
        build_groups(variables, 1, options),
    )
    scale = LossScale(8.0)
    step = optimizer.step
    scale.apply(optimizer, [tf.constant([1.0, 1.0])], tf.constant(np.inf), step)
    step.assign_add(1)
    assert variables["model/lm_loss/bias"].numpy().tolist() == [1.0, 2.0]
    assert float(scale.scale) == 4.0
    scale.apply(optimizer, [tf.zeros([2])], tf.constant(0.0), step)
    assert (float(scale.scale), int(scale.good_steps)) == (4.0, 1)
    scale.good_steps.assign(GROWTH_STEPS - 1)
    scale.apply(optimizer, [tf.constant([1.0, 1.0])], tf.constant(1.4), step)
    assert variables["model/lm_loss/bias"].numpy()[0] < 1.0
    assert float(scale.scale) == 8.0
    assert float(scale.scale_loss(tf.constant(3.0)) * scale.inverse()) == 3.0


def test_the_scale_of_gradients_that_never_overflow_stays_finite():
    optimizer, weights = _adam()
    scale, step = LossScale(MOST), optimizer.step
    for _ in range(2):
        scale.good_steps.assign(GROWTH_STEPS - 1)
        scale.apply(optimizer, [tf.zeros([2])], tf.constant(0.0), step)
    assert float(scale.scale) == MOST
    product = scale.scale_loss(tf.constant(3.0)) * scale.inverse()
    assert float(product) == 3.0
    scale.apply(optimizer, [tf.ones([2])], tf.constant(np.nan), step)
    assert float(scale.scale) == MOST / 2
    assert weights.numpy().tolist() == [1.0, 2.0]


def _adam(steps=10**6, **options):
    options = OptimizerOptions(learning_rate=0.1, clip=0.0, **options)
    variables = {"model/lm_loss/bias": tf.Variable([1.0, 2.0])}
    optimizer = build_optimizer(
        options,
        Schedule(options, steps),
        variables,
        build_groups(variables, 1, options),
    )
    return optimizer, variables["model/lm_loss/bias"]


@pytest.mark.parametrize("kind", ["adamw", "stable_adamw"])
def test_steps_with_an_overflow_are_no_updates_to_adam(kind):
    """The first of them are left out nearly always: the scale begins high."""

    def trained(*norms):
        optimizer, weights = _adam(optimizer=kind, weight_decay=0.0)
        scale, found = LossScale(), []
        for norm in norms:
            gradients = [tf.constant([0.5, -0.25])]
            step = optimizer.step.read_value()
            scale.apply(optimizer, gradients, tf.constant(norm), step)
            optimizer.step.assign_add(1)
            found.append(weights.numpy().tolist())
        return found, scale

    wanted, _ = trained(1.0, 1.0)
    found, scale = trained(np.inf, np.inf, 1.0, np.inf, 1.0)
    assert [found[i] for i in (2, 4)] == [pytest.approx(w) for w in wanted]
    assert int(scale.skipped) == 3


@pytest.mark.parametrize(
    "options, shares",
    [
        ({"average_last": 4}, [0.0, 0.25, 0.25, 0.25, 0.25]),
        ({"ema_decay": 0.5}, [0.0625, 0.0625, 0.125, 0.25, 0.5]),
    ],
)
def test_steps_with_an_overflow_count_in_averages(options, shares):
    """The weights of another step stood for theirs in the mean."""
    optimizer, weights = _adam(steps=4, **options)
    scale, found = LossScale(), [weights.numpy()]
    for norm in (1.0, 1.0, np.inf, 1.0):
        gradients = [tf.constant([0.5, -0.25])]
        step = optimizer.step.read_value()
        scale.apply(optimizer, gradients, tf.constant(norm), step)
        optimizer.step.assign_add(1)
        found.append(weights.numpy())
    (average,) = optimizer.averages.by_name.values()
    wanted = np.einsum("s,sw->w", shares, found)
    np.testing.assert_allclose(average, wanted, rtol=1e-6)
