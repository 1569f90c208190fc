"""How long a fine-tuning is, and weights of classes."""

import pytest

from common.errors import UserError
from flags.tasks import tuning_flags
from tests.flags.fresh_flags import parsed


def define():
    tuning_flags.define(40, train_steps=900)


def read(*arguments):
    with parsed(define, "--model_dir=m", "--do_train", *arguments):
        return tuning_flags.from_flags()


def test_epochs_or_steps():
    assert read("--train_steps=70").run.train_steps == 70
    with pytest.raises(UserError, match="one of --train_epochs and --train_st"):
        read("--train_steps=70", "--train_epochs=2")
    # Until examples are counted there are as many steps as the others ask for.
    run = read("--train_epochs=2", "--warmup_steps=1000").run
    assert run.train_steps == 1001
    trapezoid = ("--decay_method=wsd", "--decay_steps=950")
    run = read("--train_epochs=2", "--warmup_steps=100", *trapezoid).run
    assert run.train_steps == 1051
    run = read("--train_epochs=2", "--average_last=1000").run
    assert run.train_steps == 1000
    assert read("--train_epochs=2").run.train_steps == 900


def test_weights_are_numbers_or_the_word():
    assert read("--class_weights=balanced").class_weights == ("balanced",)
    assert read("--class_weights=1,2.5").class_weights == (1.0, 2.5)
    with pytest.raises(UserError, match="--class_weights"):
        read("--class_weights=1,balanced")


def test_patience_is_the_runs():
    options = read("--patience=3", "--eval_every=5")
    assert options.run.patience == 3
