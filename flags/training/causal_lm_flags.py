"""Flags of run_lm.py."""

from absl import flags

from common.errors import UserError
from flags import flag_values
from flags.recipes import causal_lm_recipes
from flags.training import common_flags, transformer_xl_flags
from modeling.encoders.transformer_xl.config import TransformerXLConfig
from training.jobs.causal_lm_options import CausalLMOptions

FLAGS = flags.FLAGS

# What an evaluation may have another value of than the training.
_CHANGES = ("mem_len", "clamp_len", "same_length", "memory_start")
_EVAL = "eval_"


def define() -> None:
    """Registers these flags and those of model, optimizer and strategy."""
    common_flags.define(
        # The original's defaults.
        learning_rate=2.5e-4,
        clip=0.25,
        decay_method="cos",
        min_lr_ratio=0.004,
        train_steps=100_000,
        train_batch_size=60,
        eval_batch_size=10,
        iterations=100,
        save_steps=10_000,
    )
    transformer_xl_flags.define()
    flag_values.define(CausalLMOptions)
    flag_values.define_changes(
        TransformerXLConfig,
        *_CHANGES,
        prefix=_EVAL,
        default="--{}; of --mode=eval and score",
    )
    common_flags.define_recipe(
        "the paper and its scripts", causal_lm_recipes.RECIPES
    )
    common_flags.define_memory()


def apply_recipe() -> list[str]:
    """See `common_flags.apply_recipe`."""
    return common_flags.apply_recipe(causal_lm_recipes.RECIPES)


def from_flags() -> CausalLMOptions:
    """What is trained on which data; call `apply_recipe` before.

    Raises UserError: a setting is given whose values the sweep says itself.
    """
    own = _said_elsewhere()
    given = [name for name in own if FLAGS[_EVAL + name].present]
    if FLAGS.mode == "sweep" and given:
        ways = {
            "mem_len": "--sweep_step and --sweep_max say its values",
            "clamp_len": "--sweep_clamp_lens says its values",
        }
        raise UserError(
            f"--{_EVAL}{given[0]} beside --mode=sweep: {ways[given[0]]}; leave "
            "it out"
        )
    names = [name for name in _CHANGES if name not in own or name in given]
    return flag_values.build(
        CausalLMOptions,
        eval_changes=flag_values.changes(
            TransformerXLConfig, *names, prefix=_EVAL
        ),
    )


def _said_elsewhere() -> tuple[str, ...]:
    """Of `_CHANGES` those that count only where they are given themselves.

    A recipe's values do not count: windows have no memory, a sweep has all.
    """
    if FLAGS.protocol == "sliding":
        return _CHANGES
    if FLAGS.mode == "sweep":
        return ("mem_len", "clamp_len")[: 1 + bool(FLAGS.sweep_clamp_lens)]
    return ()


def run_from_flags():
    """The `RunOptions`."""
    return common_flags.from_flags(eval_at_start=True, init_require="all")
