"""Averages of weights: moving, of the last updates, and from a trigger on."""

import numpy as np
import pytest
import tensorflow as tf

from common.errors import UserError
from training.optim.averages import AverageTrigger
from training.optim.optimizer import AdamW
from training.optim.schedules import Schedule
from training.optim.variable_groups import build_groups
from training.run_options import OptimizerOptions, RunOptions


def test_average_of_weights_follows_its_decay():
    options = OptimizerOptions(learning_rate=0.5, ema_decay=0.75)
    names = ["model/lm_loss/bias"]
    variables = {names[0]: tf.Variable([1.0, -2.0, 4.0])}
    optimizer = AdamW(
        options,
        Schedule(options, 9),
        variables,
        build_groups(names, 1, options),
    )
    start = variables[names[0]].numpy()
    optimizer.apply([tf.constant([1.0, 1.0, -1.0])], optimizer.step)
    np.testing.assert_allclose(
        optimizer.averages.by_name[names[0]].numpy(),
        0.75 * start + 0.25 * variables[names[0]].numpy(),
    )


def test_the_mean_of_the_last_updates():
    options = OptimizerOptions(learning_rate=0.1, average_last=3)
    name = "model/lm_loss/bias"
    variables = {name: tf.Variable([1.0, -2.0])}
    groups = build_groups([name], 1, options)
    optimizer = AdamW(options, Schedule(options, 7), variables, groups)
    weights = []
    for step in range(7):
        optimizer.apply([tf.constant([0.3, step - 3.0])], optimizer.step)
        optimizer.step.assign_add(1)
        weights.append(variables[name].numpy())
        average = optimizer.averages.by_name[name].numpy()
        wanted = np.mean(weights[4:], 0) if step > 4 else weights[-1]
        np.testing.assert_allclose(average, wanted, rtol=1e-5)


def test_averaging_begins_when_evaluations_get_no_better():
    """Algorithm 1 of the paper, with all losses at hand."""
    random = np.random.default_rng(4)
    begun = set()
    for patience in (1, 2, 5):
        for _ in range(20):
            losses = 5 / np.arange(1, 13) + random.normal(size=12) * 0.3
            losses = losses.astype(np.float32)
            trigger = AverageTrigger(patience)
            found = [
                step
                for step, loss in enumerate(losses)
                if trigger.note(step, float(loss))
            ]
            wanted = [
                t
                for t in range(patience + 1, 12)
                if losses[t] > losses[: t - patience].min()
            ][:1]
            assert found == wanted
            assert not trigger.misses(11) and trigger.misses(12)
            begun |= {*found}
    assert len(begun) > 3


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"ema_decay": 0.9, "average_last": 3}, "one average .*average_last"),
        ({"average_trigger": -1}, "--average_trigger must be >= 0"),
    ],
)
def test_averages_are_checked(changes, message):
    with pytest.raises(UserError, match=message):
        OptimizerOptions(**changes)
    with pytest.raises(UserError, match="give --eval_every"):
        RunOptions("x", optimizer=OptimizerOptions(average_trigger=2))
    with pytest.raises(UserError, match="at most --train_steps .100"):
        last = OptimizerOptions(average_last=101)
        RunOptions("x", train_steps=100, optimizer=last)
