"""Table 8 of the XLNet paper as presets, in both of its versions.

`_v1` is the first version of the paper, `_v2` the later one (the default for
a bare name). Values that neither gives carry `NOT_FROM_PAPER`. ModernBERT's
GLUE table is in `flags.recipes.encoder_recipes`.
"""

import dataclasses

from common.errors import UserError
from flags.recipes import encoder_recipes

NOT_FROM_PAPER = "not from the paper"
DEFAULT_VERSION = "v2"


@dataclasses.dataclass(frozen=True)
class Recipe:
    """Values of one column of Table 8 and what they come with."""

    command: str
    flags: dict  # flag -> value, from the paper
    assumed: dict  # flag -> value that the paper does not give
    source: str


# Common to all columns of Table 8.
_SHARED = {
    "dropout": 0.1,
    "dropatt": 0.1,
    "decay_method": "poly",
    "adam_epsilon": 1e-6,
}
# Warm-up and clipping of fine-tuning are in neither version.
_ASSUMED = {"warmup_steps": 1000, "clip": 1.0, "min_lr_ratio": 0.0}
# task: command, length, batch, steps, layer decay, rate in v1, rate in v2
_COLUMNS = {
    "race": ("run_race.py", 512, 32, 12000, 1.0, 2e-5, 2e-5),
    "squad": ("run_squad.py", 512, 48, 8000, 0.75, 3e-5, 3e-5),
    "mnli": ("run_classifier.py", 128, 128, 10000, 1.0, 3e-5, 2e-5),
    "yelp5": ("run_classifier.py", 512, 128, 10000, 1.0, 2e-5, 1e-5),
}
_WEIGHT_DECAY = {"v1": 0.0, "v2": 0.01}


def _make() -> dict[str, Recipe]:
    recipes = {}
    for task, column in _COLUMNS.items():
        command, length, batch, steps, decay, *rates = column
        for version, rate in zip(("v1", "v2"), rates, strict=True):
            flags = _SHARED | {
                "max_seq_length": length,
                "train_batch_size": batch,
                "train_steps": steps,
                "learning_rate": rate,
                "lr_layer_decay_rate": decay,
                "weight_decay": _WEIGHT_DECAY[version],
            }
            recipes[f"{task}_large_{version}"] = Recipe(
                command, flags, dict(_ASSUMED), f"Table 8, {version}"
            )
    for version in ("v1", "v2"):
        base = recipes[f"race_large_{version}"]
        recipes[f"race_large_640_{version}"] = dataclasses.replace(
            base,
            flags=base.flags | {"max_seq_length": 640},
            source=f"Table 8, {version}; length 640 of section 3.2",
        )
    for name, values in encoder_recipes.glue().items():
        recipes[name] = Recipe("run_classifier.py", *values)
    return recipes


RECIPES = _make()


def of_command(command: str) -> dict[str, Recipe]:
    """Those of a command, "run_race.py" for example."""
    return {k: v for k, v in RECIPES.items() if v.command == command}


def find_in(
    recipes: dict[str, Recipe], name: str, *ends: str
) -> tuple[str, Recipe]:
    """(full name, recipe) of a name, or of one that lacks one of the ends.

    Raises UserError, which lists the recipes: there is none of that name.
    """
    for candidate in (name, *(name + end for end in ends)):
        if candidate in recipes:
            return candidate, recipes[candidate]
    raise UserError(
        f"unknown --recipe {name!r}; there are {', '.join(sorted(recipes))}"
    )


def find(name: str) -> tuple[str, Recipe]:
    """(full name, recipe) of "squad", "squad_large" or "squad_large_v1"."""
    version = f"_{DEFAULT_VERSION}"
    return find_in(RECIPES, name, version, f"_large{version}")


def describe(name: str, recipe: Recipe, overridden: dict) -> str:
    """Every value on a line of its own, and where it comes from."""
    lines = [f"recipe {name} ({recipe.source}):"]
    for flag, value in sorted((recipe.flags | recipe.assumed).items()):
        note = "" if flag in recipe.flags else f"  ({NOT_FROM_PAPER})"
        if flag in overridden:
            lines.append(
                f"  --{flag}={overridden[flag]}  (given; recipe {value})"
            )
        else:
            lines.append(f"  --{flag}={value}{note}")
    return "\n".join(lines)
