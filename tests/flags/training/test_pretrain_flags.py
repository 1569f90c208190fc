"""Flags of pretraining: recipes, the original's names, contradictions."""

import pathlib
import re
import subprocess
import sys

import pytest

from common.errors import UserError
from data.pretraining.options import BuildOptions
from flags.training import (
    model_flags,
    pretrain_flags,
)
from modeling import XLNetConfig

ROOT = pathlib.Path(__file__).resolve().parents[3]


def test_the_originals_command_line_works(parse):
    parse(
        "--use_tpu=True",
        "--tpu=node-1",
        "--tpu_zone=europe-west4-a",
        "--gcp_project=p",
        "--num_hosts=16",
        "--num_core_per_host=8",
        "--train_batch_size=2048",
        "--seq_len=512",
        "--reuse_len=256",
        "--mem_len=384",
        "--perm_size=256",
        "--n_layer=24",
        "--d_model=1024",
        "--n_head=16",
        "--d_head=64",
        "--d_inner=4096",
        "--untie_r=True",
        "--mask_alpha=6",
        "--mask_beta=1",
        "--num_predict=85",
        "--use_bfloat16",
    )
    options = pretrain_flags.run_from_flags()
    assert options.strategy.distribution_strategy == "tpu"
    assert options.strategy.num_core_per_host == 8
    assert options.strategy.precision == "mixed_bfloat16"
    assert options.train_batch_size == 2048 and options.eval_at_start
    what = pretrain_flags.from_flags()
    assert what.wanted["perm_size"] == 256 and "bi_data" not in what.wanted
    config = model_flags.from_flags(32000, reuse_len=what.wanted["reuse_len"])
    assert config == XLNetConfig.large(mem_len=384, reuse_len=256)


# Table 7, both versions: what must come out of the recipes.
TABLE_7 = {
    "pretrain_large_v1": (1e-5, 2048, 20_000, 0.1),
    "pretrain_large_v2": (4e-4, 8192, 40_000, 0.0),
}


@pytest.mark.parametrize("name", TABLE_7)
def test_recipes_are_table_7(parse, name):
    parse(f"--recipe={name}")
    lines = pretrain_flags.apply_recipe()
    rate, batch, warmup, activation_dropout = TABLE_7[name]
    options = pretrain_flags.run_from_flags()
    o = options.optimizer
    assert (o.learning_rate, o.warmup_steps) == (rate, warmup)
    assert (o.adam_epsilon, o.weight_decay, o.decay_method) == (
        1e-6,
        0.01,
        "poly",
    )
    assert options.train_batch_size == batch
    assert options.train_steps == 500_000
    config = model_flags.from_flags(32000)
    assert config.inner_dropout == activation_dropout
    assert (config.dropout, config.dropatt) == (0.1, 0.1)
    assert config.replace(mem_len=None, activation_dropout=None) == (
        XLNetConfig.large(reuse_len=256)
    )
    assert config.mem_len == 384
    # Records of the builder's defaults fit.
    built = BuildOptions("a", "b", "c").identity()
    wanted = pretrain_flags.from_flags().wanted
    assert wanted["mask_alpha"] == 6
    assert {k: built[k] for k in wanted} == wanted
    text = "\n".join(lines)
    assert "--clip=0.25  (not from the paper)" in text
    marked = "mem_len=384  (not from the paper)" in text
    assert marked == (name == "pretrain_large_v2")


def test_a_given_flag_overrides_the_recipe(parse):
    parse("--recipe=pretrain_base", "--train_batch_size=64", "--dropout=0.2")
    lines = pretrain_flags.apply_recipe()
    assert pretrain_flags.run_from_flags().train_batch_size == 64
    config = model_flags.from_flags(32000)
    assert (config.n_layer, config.d_model, config.dropout) == (12, 768, 0.2)
    assert "  --train_batch_size=64  (given; recipe 8192)" in lines


def test_unknown_recipe_lists_what_there_is(parse):
    parse("--recipe=large")
    with pytest.raises(UserError, match="pretrain_large_v1"):
        pretrain_flags.apply_recipe()


def test_following_is_for_evaluation(parse):
    parse("--follow")
    with pytest.raises(UserError, match="--mode=eval"):
        pretrain_flags.from_flags()


@pytest.mark.slow
def test_a_job_that_is_followed_has_no_choice_of_weights(parse):
    choice = "--checkpoint_choice=best"
    parse("--mode=eval", choice)
    pretrain_flags.from_flags()
    parse("--mode=eval", choice, "--follow")
    with pytest.raises(UserError, match="_choice is of --follow=false, found"):
        pretrain_flags.from_flags()


def test_an_unknown_flag_is_one_line():
    done = subprocess.run(
        [sys.executable, "run_pretrain.py", "--num_passes=20"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1
    assert "--num_passes of data.create_pretraining_data" in done.stderr
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr


def test_the_small_recipe_fits_the_quickstarts_records(parse):
    """Its data settings are what scripts/quickstart.sh gives the builder."""
    script = (ROOT / "scripts" / "quickstart.sh").read_text()
    built = re.search(r"create_pretraining_data.*?\n\n", script, re.DOTALL)[0]
    given = dict(re.findall(r"--(\w+)=(\d+)", built))
    parse("--recipe=small_minutes")
    pretrain_flags.apply_recipe()
    wanted = pretrain_flags.from_flags().wanted
    for name in ("seq_len", "reuse_len", "mask_alpha"):
        assert str(wanted[name]) == given[name]
    assert wanted["mask_beta"] == BuildOptions("a", "b", "c").mask_beta
    config = model_flags.from_flags(8000, reuse_len=64)
    assert (config.n_layer, config.d_model, config.init_std) == (3, 192, 0.05)
    assert pretrain_flags.run_from_flags().train_steps == 900
