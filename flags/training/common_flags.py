"""Flags of every training command: folders, sizes, intervals."""

from absl import flags

from flags import flag_values
from flags.recipes.finetune_recipes import Recipe, describe, find_in
from flags.training import optim_flags, strategy_flags
from training.run_options import RunOptions

FLAGS = flags.FLAGS
# Fields of `RunOptions` that not every command has flags for.
_MEMORY = ("reset_memory", "memory_checkpoint")
BATCH_WARMUP = ("min_batch_size", "batch_size_warmup_tokens")


def define(**defaults) -> None:
    """Registers these flags and those of optimizer and strategy.

    Defaults are those that differ from `RunOptions` and `OptimizerOptions`.
    """
    optim_flags.define(**defaults)
    strategy_flags.define()
    others = ("patience", *_MEMORY, *BATCH_WARMUP)
    flag_values.define(RunOptions, without=others, **defaults)


def define_memory() -> None:
    """Registers what happens to recurrent memory between two starts."""
    flag_values.define(RunOptions, *_MEMORY)


def from_flags(**changes) -> RunOptions:
    """The parsed flags as `RunOptions`."""
    # A ranker's own --patience counts passes over its pairs.
    values = {"patience": RunOptions.patience} | changes
    if "optimizer" not in changes:
        values["optimizer"] = optim_flags.from_flags()
    if "strategy" not in changes:
        values["strategy"] = strategy_flags.from_flags()
    return flag_values.build(RunOptions, **values)


def all_flags() -> dict:
    """Name -> value of every flag that this project defines."""
    values = {}
    for module, defined in FLAGS.flags_by_module_dict().items():
        if module.startswith(("flags.", "run_")) or module == "__main__":
            values |= {flag.name: flag.value for flag in defined}
    return values


def define_recipe(what: str, recipes: dict[str, Recipe]) -> None:
    """Registers --recipe."""
    flag_values.often |= {"recipe"}
    flags.DEFINE_string(
        "recipe",
        None,
        f"Preset of {what}: {', '.join(sorted(recipes))}; flags that are "
        "given override it.",
    )


def apply_recipe(recipes: dict[str, Recipe]) -> list[str]:
    """Gives flags that were not given the values of --recipe.

    Lines list every value and its source; none without a recipe.
    """
    if not FLAGS.recipe:
        return []
    return give_recipe(*find_in(recipes, FLAGS.recipe))


def give_recipe(name: str, recipe: Recipe) -> list[str]:
    """Gives flags that were not given a recipe's values; lines list all."""
    overridden = {}
    for flag, value in (recipe.flags | recipe.assumed).items():
        if FLAGS[flag].present:
            overridden[flag] = FLAGS[flag].value
        else:
            FLAGS.set_default(flag, value)
    return describe(name, recipe, overridden).splitlines()
