"""Flags of run_lm.py."""

from absl import flags

from flags import flag_values
from flags.recipes import causal_lm_recipes
from flags.training import common_flags, transformer_xl_flags
from training.jobs.causal_lm_options import CausalLMOptions

FLAGS = flags.FLAGS

# What an evaluation may have another value of than the training.
_CHANGES = (
    "eval_mem_len",
    "eval_clamp_len",
    "eval_same_length",
    "eval_memory_start",
)


def define() -> None:
    """Registers these flags and those of model, optimizer and strategy."""
    flag_values.often |= {"recipe"}
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
    _define_evaluation()
    flags.DEFINE_string(
        "recipe",
        None,
        "Preset of the paper and its scripts: "
        f"{', '.join(sorted(causal_lm_recipes.RECIPES))}; flags that are "
        "given override it.",
    )
    common_flags.define_memory()


def _define_evaluation() -> None:
    """Fields of the model that an evaluation changes."""
    flags.DEFINE_integer(
        "eval_mem_len", None, "M of --mode=eval and score. Default: --mem_len."
    )
    flags.DEFINE_integer(
        "eval_clamp_len",
        None,
        "Clamping of --mode=eval and score. Default: --clamp_len.",
    )
    flags.DEFINE_bool(
        "eval_same_length",
        None,
        "Of --mode=eval and score. Default: --same_length.",
    )
    flags.DEFINE_enum(
        "eval_memory_start",
        None,
        ["hidden", "zeros"],
        "Of --mode=eval and score. Default: --memory_start.",
    )


def apply_recipe() -> list[str]:
    """Gives flags that were not given the recipe's values.

    Returns:
      Lines that list every value and its source; empty without a recipe.

    Raises:
      UserError: unknown recipe.
    """
    if not FLAGS.recipe:
        return []
    recipe = causal_lm_recipes.find(FLAGS.recipe)
    return common_flags.give_recipe(FLAGS.recipe, recipe)


def from_flags() -> CausalLMOptions:
    """What is trained on which data; call `apply_recipe` before."""
    changes = {
        name.removeprefix("eval_"): FLAGS[name].value
        for name in _CHANGES
        # Of a recipe: windows have no memory, whatever it says.
        if FLAGS.protocol != "sliding" or FLAGS[name].present
    }
    return flag_values.build(
        CausalLMOptions,
        eval_changes={k: v for k, v in changes.items() if v is not None},
    )


def run_from_flags():
    """The `RunOptions`."""
    return common_flags.from_flags(eval_at_start=True, init_require="all")
