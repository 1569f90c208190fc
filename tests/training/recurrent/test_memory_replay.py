"""Memory made again from the segments before a step."""

import types

import numpy as np
import pytest
import tensorflow as tf

from common.errors import UserError
from tests.helpers.runs import toy
from training.recurrent.memory_replay import remake, replay, segments_needed
from training.run_options import OptimizerOptions
from training.step.batch_split import BatchSplit, distribute
from training.step.learner import build_learner
from training.step.train_step import Trainer
from training.strategy import setup

SEED, STEPS = 5, 6


def test_a_memory_that_is_emptied_is_noted(tmp_path):
    learner = types.SimpleNamespace(memory=object())

    def notes(step=STEPS, **how):
        options = toy.run_options(tmp_path, **how)
        return remake(learner, options, toy.input_fn, step)

    assert notes() == [] == notes(0, reset_memory=True)
    for how in ({"reset_memory": True}, {"memory_checkpoint": "none"}):
        (line,) = notes(**how)
        assert line.startswith("note: the memory starts empty")


@pytest.mark.parametrize(
    "how", [{"reset_memory": True}, {"memory_checkpoint": "recompute"}]
)
def test_settings_of_a_memory_that_is_not_there_are_refused(tmp_path, how):
    learner = types.SimpleNamespace(memory=None)
    options = toy.run_options(tmp_path)
    assert remake(learner, options, toy.input_fn, STEPS) == []
    with pytest.raises(UserError, match=f"--{[*how][0]}: wanted a model with"):
        remake(learner, options.replace(**how), toy.input_fn, 0)


@pytest.mark.long
def test_with_the_same_weights_it_is_the_same_memory(tmp_path):
    """Micro-batches, dropout and both directions are those of the steps."""
    objective = toy.ToyObjective(dropout=0.3)
    strategy = setup(toy.run_options(tmp_path).strategy)
    split = BatchSplit(8, 1, 2, objective.row_groups)
    # Weights that stay as they are.
    options = OptimizerOptions(learning_rate=1e-30)
    learner = build_learner(objective, strategy, split, options, 100)
    dataset, spec = distribute(strategy, toy.input_fn, split)
    Trainer(learner, dataset, SEED).train(tf.constant(STEPS))
    wanted = learner.memory.to_host()
    assert segments_needed(objective, spec) == 2
    assert replay(learner, toy.input_fn, SEED, STEPS) == 2
    found = learner.memory.to_host()
    assert np.ptp(wanted.length) > 0  # some lanes had begun in between
    np.testing.assert_array_equal(found.length, wanted.length)
    for row, length in enumerate(wanted.length):
        for a, b in zip(found.layers, wanted.layers, strict=True):
            valid = slice(a.shape[1] - length, None)
            assert a[row, valid].tobytes() == b[row, valid].tobytes()
    # There are no steps before the first.
    assert replay(learner, toy.input_fn, SEED, 0) == 0
    assert not learner.memory.to_host().length.any()
