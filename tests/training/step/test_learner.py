"""What a run trains: variables, groups, slots, memory and a loss scale."""

import pytest
import tensorflow as tf
import tf_keras

from common.errors import UserError
from modeling.encoders import sizes
from tests.helpers.runs import toy
from training.run_options import OptimizerOptions
from training.step.batch_split import BatchSplit
from training.step.learner import build_learner

TABLE, KERNEL, BIAS = (
    "model/transformer/word_embedding/lookup_table",
    "model/transformer/layer_0/ff/layer_1/kernel",
    "model/lm_loss/bias",
)


def build(objective=None, **options):
    objective = objective or toy.ToyObjective()
    return build_learner(
        objective,
        tf.distribute.get_strategy(),
        BatchSplit(8, 1, 2, 2),
        OptimizerOptions(learning_rate=0.5, warmup_steps=2, **options),
        10,
    )


def test_the_parts_are_of_one_model():
    learner = build(freeze_layers=1, weight_decay=0.1)
    assert list(learner.variables) == [TABLE, KERNEL, BIAS]
    assert learner.variables[KERNEL] is learner.model.kernel
    frozen = {name: group.frozen for name, group in learner.groups.items()}
    assert frozen == {TABLE: True, KERNEL: True, BIAS: False}
    trained = learner.optimizer.trained
    assert [v is learner.model.bias for v in trained] == [True]
    # The schedule knows the run's length: it ends at 0.
    rates = learner.optimizer.schedule
    assert [float(rates(tf.constant(s))) for s in (2, 10)] == [0.5, 0.0]
    assert learner.memory.rows == 8 and learner.loss_scale is None


def test_no_memory_without_slots():
    objective = toy.ToyObjective()
    objective.memory_len = 0
    assert build(objective).memory is None


class Half(toy.ToyObjective):
    """A model that computes in float16."""

    def build_model(self):
        tf_keras.mixed_precision.set_global_policy("mixed_float16")
        return super().build_model()


def test_float16_has_a_loss_scale_of_the_rows_of_a_replica():
    scale = build(Half()).loss_scale
    loss = float(scale.scale_loss(tf.constant(16.0)))
    assert loss == 16.0 * float(scale.scale.numpy()) / 8
    assert float(scale.inverse()) * loss == 16.0


@pytest.mark.parametrize("options, copies", [({}, 3), ({"ema_decay": 0.9}, 4)])
def test_weights_that_do_not_fit_are_refused_before_they_are_made(
    monkeypatch, options, copies
):
    """Weights and two slots, and an average where there is one."""
    asked = []

    def check(config, number):
        asked.append((config, number))
        raise UserError("too large")

    monkeypatch.setattr(sizes, "check", check)
    monkeypatch.setattr(
        toy.ToyObjective, "build_model", lambda self: pytest.fail("built")
    )
    with pytest.raises(UserError, match="too large"):
        build(**options)
    assert asked == [(toy.CONFIG, copies)]
