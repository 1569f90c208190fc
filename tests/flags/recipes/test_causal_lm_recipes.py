"""Recipes of Transformer-XL: every value has a source, sizes fit a model."""

import dataclasses

import pytest

from flags.recipes.causal_lm_recipes import RECIPES
from modeling.encoders.transformer_xl.config import TransformerXLConfig

FIELDS = {field.name for field in dataclasses.fields(TransformerXLConfig)}


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_a_whole_model_and_a_whole_run(name):
    recipe = RECIPES[name]
    assert recipe.command == "run_lm.py"
    assert not recipe.flags.keys() & recipe.assumed.keys()
    values = recipe.flags | recipe.assumed
    sizes = {k: v for k, v in values.items() if k in FIELDS}
    config = TransformerXLConfig(vocab_size=1_000_000, **sizes)
    assert config.n_layer == values["n_layer"]
    for flag in ("seq_len", "train_batch_size", "train_steps", "eval_mem_len"):
        assert values[flag] > 0, flag
    assert values["mem_len"] == values["seq_len"]


def test_numbers_of_the_released_scripts():
    def of(name, *flags):
        values = RECIPES[name].flags
        return tuple(values[flag] for flag in flags)

    sizes = ("n_layer", "d_model", "n_head", "d_head", "d_inner")
    assert of("txl_wt103_large", *sizes) == (18, 1024, 16, 64, 4096)
    assert of("txl_wt103_large", "div_val", "dropout") == (4, 0.2)
    assert of("txl_enwik8_24", "eval_mem_len", "eval_clamp_len") == (3800, 1000)
    assert of("txl_lm1b_large", "learning_rate", "warmup_steps") == (
        *(1e-4, 30_000),
    )
    # Nothing of Penn Treebank's run but its result is published.
    assert RECIPES["txl_ptb"].flags == {}
    assert RECIPES["txl_enwik8_18"].assumed["d_inner"] == 2240
