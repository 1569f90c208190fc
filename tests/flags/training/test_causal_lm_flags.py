"""Flags of run_lm.py: its recipes, and what evaluations change."""

import pytest

from common.errors import UserError
from flags.training import causal_lm_flags, transformer_xl_flags
from tests.flags.fresh_flags import parsed

FOLDERS = ("--data_dir=d", "--model_dir=m")


def read(*arguments):
    with parsed(causal_lm_flags.define, *FOLDERS, *arguments):
        causal_lm_flags.apply_recipe()
        return (
            causal_lm_flags.from_flags(),
            causal_lm_flags.run_from_flags(),
            transformer_xl_flags.from_flags(204),
        )


def test_a_recipe_is_the_model_the_run_and_its_evaluation():
    what, run, config = read("--recipe=txl_enwik8_12", "--train_steps=9")
    assert (what.seq_len, run.train_batch_size, run.train_steps) == (512, 24, 9)
    assert (config.n_layer, config.d_model, config.mem_len) == (12, 512, 512)
    assert what.eval_changes == {
        "mem_len": 2100,
        "clamp_len": 820,
        "same_length": True,
    }
    assert run.eval_at_start and run.init_require == "all"


def test_the_originals_defaults():
    what, run, config = read()
    o = run.optimizer
    assert (o.learning_rate, o.clip, o.decay_method) == (2.5e-4, 0.25, "cos")
    assert o.min_lr_ratio == 0.004 and what.eval_changes == {}
    assert (config.n_layer, config.d_inner) == (16, 2100)


def test_windows_have_no_memory_whatever_a_recipe_says():
    recipe = ("--recipe=txl_enwik8_12", "--protocol=sliding")
    assert read(*recipe)[0].eval_changes == {}
    with pytest.raises(UserError, match="leave --eval_mem_len out"):
        read(*recipe, "--eval_mem_len=7")


def test_a_sweep_says_its_memories_and_clamps_itself():
    """The flags had no effect there."""
    recipe = ("--recipe=txl_enwik8_12", "--mode=sweep")
    clamps = ("--sweep_clamp_lens=5,9",)
    assert read(*recipe)[0].eval_changes == {
        "clamp_len": 820,
        "same_length": True,
    }
    assert read(*recipe, *clamps)[0].eval_changes == {"same_length": True}
    own = read("--mode=sweep", "--eval_clamp_len=7")[0]
    assert own.eval_changes == {"clamp_len": 7}
    with pytest.raises(UserError, match="^--eval_mem_len beside .*sweep_step"):
        read(*recipe, "--eval_mem_len=7")
    with pytest.raises(UserError, match="^--eval_clamp_len .*sweep_clamp_lens"):
        read("--mode=sweep", *clamps, "--eval_clamp_len=7")
