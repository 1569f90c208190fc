"""Flags of run_pretrain.py."""

from absl import flags

from data.pretraining.options import BuildOptions
from flags import flag_values, text_flags
from flags.recipes import pretrain_recipes
from flags.training import common_flags, model_flags
from training.jobs.pretrain_options import PretrainOptions
from training.run_options import RunOptions

FLAGS = flags.FLAGS

# What the manifest knows; flags that are given must agree with it.
DATA_FLAGS = (
    *("seq_len", "num_predict", "perm_size", "bi_data"),
    *("mask_alpha", "mask_beta"),
)
MORE_DATA_FLAGS = ("reuse_len", "uncased")


def define() -> None:
    """Registers these flags and those of model, optimizer and strategy."""
    common_flags.define(
        # The original's pretraining defaults, where it has some.
        learning_rate=2.5e-4,
        clip=0.25,
        train_steps=100_000,
        iterations=100,
        save_steps=10_000,
    )
    model_flags.define()
    flag_values.define(PretrainOptions)
    flag_values.define_changes(
        BuildOptions,
        *DATA_FLAGS,
        default="the data's, with which it must agree",
    )
    text_flags.define("as the data are")
    common_flags.define_recipe(
        "the papers' tables and of small models", pretrain_recipes.RECIPES
    )
    common_flags.define_memory()
    flag_values.define(RunOptions, *common_flags.BATCH_WARMUP)


def apply_recipe() -> list[str]:
    """See `common_flags.apply_recipe`."""
    return common_flags.apply_recipe(pretrain_recipes.RECIPES)


def from_flags() -> PretrainOptions:
    """What is trained on which data; call `apply_recipe` before.

    Raises UserError: a value is out of range, or `--follow` ignores a flag.
    """
    # Each new checkpoint is evaluated, whichever is the best.
    follow = str(FLAGS.follow).lower()
    followers = {("false",): ("checkpoint_choice",)}
    flag_values.check_followed("follow", follow, followers)
    wanted = flag_values.changes(BuildOptions, *DATA_FLAGS)
    wanted |= {name: FLAGS[name].value for name in MORE_DATA_FLAGS}
    wanted["text_rule"] = text_flags.from_flags().rule
    return flag_values.build(
        PretrainOptions,
        wanted={k: v for k, v in wanted.items() if v is not None},
    )


def run_from_flags() -> RunOptions:
    """The run."""
    return common_flags.from_flags(eval_at_start=True)


def follows_to_the_end() -> bool:
    """Without --train_steps the job that is followed says where it ends."""
    return not FLAGS["train_steps"].present
