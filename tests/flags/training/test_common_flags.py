"""Flags of every training: a recipe's values, and what a run records."""

import pytest

from common.errors import UserError
from flags.recipes.finetune_recipes import Recipe
from flags.training import common_flags
from tests.flags.fresh_flags import parsed

RECIPES = {
    "small": Recipe("run_toy.py", {"train_steps": 70}, {"clip": 0.75}, "T"),
    "large": Recipe("run_toy.py", {"train_steps": 900}, {}, "T"),
}


def define():
    common_flags.define(train_steps=5, learning_rate=0.5)
    common_flags.define_recipe("a toy", RECIPES)


def test_a_recipe_gives_what_is_not_given():
    arguments = ("--model_dir=m", "--recipe=small", "--train_steps=8")
    with parsed(define, *arguments):
        lines = common_flags.apply_recipe(RECIPES)
        run = common_flags.from_flags()
    assert (run.train_steps, run.optimizer.clip) == (8, 0.75)
    assert run.optimizer.learning_rate == 0.5
    assert lines == [
        "recipe small (T):",
        "  --clip=0.75  (not from the paper)",
        "  --train_steps=8  (given; recipe 70)",
    ]


def test_without_a_recipe_nothing_is_said():
    with parsed(define, "--model_dir=m"):
        assert common_flags.apply_recipe(RECIPES) == []
        assert common_flags.from_flags().train_steps == 5
    with parsed(define, "--model_dir=m", "--recipe=tiny"):
        with pytest.raises(UserError, match="unknown .*'tiny'; there are lar"):
            common_flags.apply_recipe(RECIPES)


def test_a_run_records_the_flags_of_this_project():
    with parsed(define, "--model_dir=m", "--save_steps=3"):
        values = common_flags.all_flags()
        assert values["save_steps"] == 3 and values["model_dir"] == "m"
        assert values["recipe"] is None and "alsologtostderr" not in values
