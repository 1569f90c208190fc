"""What a plan takes of a recipe, and numbers that do not fit each other."""

import pytest

from common.errors import UserError
from flags import plan_flags
from flags.plan_flags import JobOptions, PlanOptions
from modeling.encoders.transformer_xl.config import TransformerXLConfig
from modeling.encoders.xlnet.config import XLNetConfig
from tests.flags.fresh_flags import parsed


def read(*arguments):
    with parsed(plan_flags.define, *arguments):
        return plan_flags.from_flags()


def test_a_recipes_batch_is_shared_by_the_cores():
    options = read("--recipe=pretrain_large_v1", "--pod_cores=512")
    assert options.config == XLNetConfig.large(
        vocab_size=32000, mem_len=options.config.mem_len, reuse_len=256
    )
    assert (options.rows, options.seq_len, options.mem_len) == (4, 512, 384)
    assert options.task == "pretrain" and options.job == JobOptions()
    with pytest.raises(UserError, match="has 2048 rows, which do not divide"):
        read("--recipe=pretrain_large_v1", "--pod_cores=7")


def test_flags_that_are_given_override_a_recipe():
    options = read(
        "--recipe=pretrain_large_v1",
        "--pod_cores=7",
        "--train_batch_size=6",
        "--seq_len=256",
        "--mem_len=0",
        "--train_steps=1000",
    )
    assert (options.rows, options.seq_len, options.mem_len) == (6, 256, 0)
    assert options.train_steps == 1000 and options.config.n_layer == 24
    with pytest.raises(UserError, match="--task=span does not fit"):
        read("--recipe=txl_ptb", "--pod_cores=1", "--task=span")


def test_a_language_models_recipe_brings_its_vocabulary():
    options = read("--recipe=txl_enwik8_12", "--pod_cores=8")
    assert isinstance(options.config, TransformerXLConfig)
    assert options.config.vocab_size == 204
    assert (options.task, options.rows, options.job) == (
        *("language_model", 3),
        None,
    )


def test_a_model_or_a_recipe():
    options = read("--model_config_path=base", "--train_batch_size=6")
    assert options.config == XLNetConfig.base(vocab_size=32000)
    assert options.rows == 6
    for arguments in (
        [],
        ["--recipe=pretrain_base", "--model_config_path=base"],
    ):
        with pytest.raises(UserError, match="--recipe, one of them"):
            read(*arguments)
    with pytest.raises(UserError, match="does not fit a xlnet model"):
        read("--model_config_path=base", "--task=language_model")


@pytest.mark.parametrize(
    "values, message",
    [
        ({"rows": 3}, "must be even for pretraining, .* found 3"),
        ({"layers": (1, 4)}, "two growing numbers from 2 to 12 .* found 1,4"),
        ({"layers": (4, 2)}, "found 4,2"),
        ({"layers": (2, 13)}, "found 2,13"),
        ({"step_seconds": 0.5}, "--step_seconds must be above 0 and is for"),
    ],
)
def test_numbers_that_do_not_fit(values, message):
    config = XLNetConfig.base()
    assert PlanOptions(config, layers=(2, 12)).layers == (2, 12)
    assert PlanOptions(config, task="span", rows=3).rows == 3
    with pytest.raises(UserError, match=message):
        PlanOptions(config, **values)
