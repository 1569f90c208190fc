"""Flags of the optimizer: a command's defaults, values that are given."""

import pytest

from common.errors import UserError
from flags.training import optim_flags
from tests.flags.fresh_flags import parsed
from training.run_options import OptimizerOptions


def define():
    optim_flags.define(learning_rate=0.25, clip=0.5, train_steps=7)


def test_defaults_of_the_command_come_before_those_of_the_class():
    with parsed(define, "--clip=2", "--weight_decay=0.125"):
        found = optim_flags.from_flags()
    assert found == OptimizerOptions(
        learning_rate=0.25, clip=2.0, weight_decay=0.125
    )
    with parsed(define):
        assert optim_flags.from_flags(clip=1.0).clip == 1.0


@pytest.mark.parametrize(
    "flag, method",
    [("--decay_shape=1-sqrt", "poly"), ("--min_lr_ratio=0.1", "constant")],
)
def test_a_flag_that_the_schedule_ignores_is_refused(flag, method):
    """Defaults of the command are none that are given."""
    with parsed(define, f"--decay_method={method}"):
        optim_flags.from_flags()
    with parsed(define, flag, "--decay_method=wsd", "--decay_steps=2"):
        optim_flags.from_flags()
    with parsed(define, flag, f"--decay_method={method}"):
        with pytest.raises(UserError, match=f", found {method}: leave it"):
            optim_flags.from_flags()


@pytest.mark.parametrize("flag", ["decay_shape=1-sqrt", "min_lr_ratio=0.1"])
def test_a_rate_that_would_never_fall_is_refused(flag):
    """Unless that is said; the recipe of ModernBERT's first phase says it."""
    with parsed(define, "--decay_method=wsd"):
        with pytest.raises(UserError, match="method=wsd: .* last --decay_st"):
            optim_flags.from_flags()
    with parsed(define, "--decay_method=wsd", "--decay_steps=0"):
        assert optim_flags.from_flags().decay_method == "wsd"
    with parsed(define, f"--{flag}"):
        optim_flags.FLAGS.set_default("decay_method", "wsd")
        with pytest.raises(UserError, match=f"--{flag}: the rate of wsd"):
            optim_flags.from_flags()
        optim_flags.FLAGS.set_default("decay_steps", 3)
        assert optim_flags.from_flags().decay_steps == 3


def test_a_style_of_layers_that_learn_alike_is_refused():
    style = "--lr_layer_decay_style=gradient"
    with parsed(define, style, "--lr_layer_decay_rate=0.5"):
        assert optim_flags.from_flags().lr_layer_decay_style == "gradient"
    with parsed(define, style):
        with pytest.raises(UserError, match="below 1, found 1: give both"):
            optim_flags.from_flags()
