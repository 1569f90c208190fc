"""Flags of run_pretrain.py."""

from absl import flags

from flags import flag_values, text_flags
from flags.recipes import pretrain_recipes
from flags.training import common_flags, model_flags
from training.jobs.pretrain_options import PretrainOptions
from training.run_options import RunOptions

FLAGS = flags.FLAGS

# What the manifest knows; flags that are given must agree with it.
DATA_FLAGS = (
    "seq_len",
    "reuse_len",
    "num_predict",
    "perm_size",
    "bi_data",
    "text_rule",
    "uncased",
    "mask_alpha",
    "mask_beta",
)


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
    _define_data()
    common_flags.define_recipe("Table 7 of the paper", pretrain_recipes.RECIPES)
    common_flags.define_memory()
    flag_values.define(RunOptions, *common_flags.BATCH_WARMUP)


def _define_data() -> None:
    """What the manifest knows."""
    flags.DEFINE_integer("seq_len", None, "T, must agree with the data.")
    flags.DEFINE_integer(
        "num_predict", None, "P, targets per segment; must agree with the data."
    )
    flags.DEFINE_integer(
        "perm_size", None, "Positions per permutation, as the data have it."
    )
    flags.DEFINE_bool(
        "bi_data", None, "Forward and backward rows, as the data have them."
    )
    text_flags.define("as the data are")
    flags.DEFINE_integer(
        "mask_alpha", None, "The data's: one span in so many tokens."
    )
    flags.DEFINE_integer(
        "mask_beta", None, "The data's: so many targets in mask_alpha tokens."
    )


def apply_recipe() -> list[str]:
    """See `common_flags.apply_recipe`."""
    return common_flags.apply_recipe(pretrain_recipes.find)


def from_flags() -> PretrainOptions:
    """What is trained on which data; call `apply_recipe` before."""
    wanted = {name: FLAGS[name].value for name in DATA_FLAGS}
    wanted["text_rule"] = text_flags.from_flags().rule
    return flag_values.build(
        PretrainOptions,
        wanted={k: v for k, v in wanted.items() if v is not None},
    )


def run_from_flags() -> RunOptions:
    """The run."""
    return common_flags.from_flags(eval_at_start=True)
