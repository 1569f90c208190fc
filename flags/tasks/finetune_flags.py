"""Flags of all fine-tuning commands."""

import json
import os

from absl import flags

from common.contract import task_spec
from common.contract.task_spec import TaskSpec
from common.errors import UserError
from data.finetuning import task_settings
from data.finetuning.options import FeatureOptions
from flags import flag_values
from flags.recipes import finetune_recipes
from flags.training import common_flags, model_flags, strategy_flags
from training.finetuning.options import FinetuneOptions, seed_folder

FLAGS = flags.FLAGS

# Fields of the architecture's file that a fine-tuning run may change.
CONFIG_FLAGS = (
    "dropout",
    "dropatt",
    "activation_dropout",
    "clamp_len",
    "blind_rows",
)

# Fields of `FinetuneOptions`: how long a training is, and what is done with
# several runs. Not every command has them.
TRAINING = ("train_epochs", "best_metric")
RUNS = (
    "class_weights",
    "label_smoothing",
    "init_head",
    "dry_run",
    "num_seeds",
    "ensemble",
    "ensemble_weights",
    "greedy",
    "train_examples",
    "slice_by_length",
)


def define(max_seq_length: int, command: str = "", **defaults) -> None:
    """Registers these flags and those of `common_flags`.

    `command` is the file of the command, by which its recipes are known.
    """
    common_flags.define(**defaults)
    recipes = finetune_recipes.of_command(command)
    if recipes:
        common_flags.define_recipe(
            "the papers' tables (a name without _vN is the later version)",
            recipes,
        )
    else:
        flags.DEFINE_string("recipe", None, "This command has no recipes.")
    flag_values.define(
        FinetuneOptions, without=(*TRAINING, *RUNS), summary_type=None
    )
    flag_values.define(
        FeatureOptions, spiece_model_file="", max_seq_length=max_seq_length
    )
    model_flags.define_changes(*CONFIG_FLAGS)


def apply_recipe(command: str) -> list[str]:
    """Gives flags that were not given the recipe's values.

    Returns lines that list every value and its source; empty without a recipe.
    Raises UserError: unknown recipe, or one of another command.
    """
    if not FLAGS.recipe:
        return []
    if not finetune_recipes.of_command(command):
        raise UserError(f"--recipe: {command} has no recipes: leave it out")
    name, recipe = finetune_recipes.find(FLAGS.recipe)
    if recipe.command != command:
        raise UserError(f"--recipe={name} is for {recipe.command}")
    return common_flags.give_recipe(name, recipe)


def _first_of_several() -> list[str]:
    """The first model of a run whose --model_dir has none of its own."""
    given = FLAGS.flag_values_dict()
    if given.get("ensemble"):
        return [FLAGS.ensemble[0]]
    if given.get("num_seeds", 1) > 1:
        return [seed_folder(FLAGS.model_dir, FLAGS.seed)]
    return []


def trained_folder() -> str | None:
    """The folder whose task.json tells the settings of this run's model.

    While training that is --model_dir. An evaluation may read other weights:
    theirs, too, lie beside their task.json.
    """
    places = [FLAGS.model_dir]
    if not FLAGS.do_train:
        start = FLAGS.init_checkpoint
        places = [FLAGS.predict_ckpt, *places, *_first_of_several(), start]
    folders = (task_spec.find_folder(p) for p in places if p)
    return next((folder for folder in folders if folder), None)


def adopt(command: str) -> tuple[TaskSpec | None, list[str]]:
    """Gives flags that were not given the values of the trained model.

    Call it before the flags become options, after `apply_recipe`.

    Returns the model's task.json, None for a new model, and lines that say what
    differs from it. Raises UserError: a flag is given that would make it
    another model.
    """
    folder = trained_folder()
    if folder is None:
        return None, []
    spec = TaskSpec.read(folder)
    path = os.path.join(folder, task_spec.FILE_NAME)
    lines = [f"settings of {path}"]
    recipe = (
        finetune_recipes.find(FLAGS.recipe)[1].flags if FLAGS.recipe else {}
    )
    for setting in task_settings.of_command(command):
        value = task_settings.plain(setting.read(spec))
        if not setting.has_flag or value is task_settings.UNKNOWN:
            continue
        flag = FLAGS[setting.name]
        recipe_value = task_settings.plain(flag.value)
        if not flag.present:
            if recipe.get(setting.name, value) != value:
                lines.append(
                    f"note: --{setting.name}={value} as {path} says, not the "
                    f"recipe's {recipe_value}"
                )
            _give(setting, path, value)
        elif recipe_value != value:
            lines.append(
                task_settings.difference(setting, path, value, flag.value)
            )
    return spec, lines


def _give(
    setting: task_settings.TrainedSetting, path: str, value: object
) -> None:
    """Makes the trained model's value that of the flag.

    Raises UserError: it is none of the flag's, as in a file changed by hand.
    """
    name = setting.name
    try:
        if value is not None or FLAGS[name].default is None:
            FLAGS.set_default(name, value)
            return
    except flags.IllegalFlagValueError:
        pass
    raise UserError(
        f"{path}: `{setting.key}`: wanted a value of --{name}, found "
        f"{json.dumps(value)[:60]}; write that of the training back"
    )


def check_read(command: str) -> None:
    """Raises UserError: a setting is given that this command ignores."""
    for setting in task_settings.SETTINGS:
        name = setting.name  # a flag of the name may be another one: --head
        of_others = setting.has_flag and command not in setting.commands
        if not of_others or name not in FLAGS:
            continue
        if FLAGS[name].present:
            able = " and ".join(f"run_{c}.py" for c in setting.commands)
            raise UserError(
                f"--{name} is of {able}: run_{command}.py would ignore it, "
                "leave it out"
            )


def from_flags(run: dict | None = None, **more) -> FinetuneOptions:
    """What to do; call `apply_recipe` and `adopt` before.

    Fields of `RunOptions` that the command sets itself are in `run`; others,
    which are none of its flags, in `more`. Raises UserError: a flag is given
    that this run ignores.
    """
    flag_values.check_followed(
        "do_export",
        str(FLAGS.do_export).lower(),
        {("true",): ("export_dir", "export_precision")},
    )
    return flag_values.build(
        FinetuneOptions,
        run=common_flags.from_flags(**run or {}),
        config_changes=model_flags.changes(*CONFIG_FLAGS),
        recompute_layers=strategy_flags.recompute_layers(),
        **more,
    )


def features_from_flags() -> FeatureOptions:
    """How text becomes features, as far as the flags say it."""
    return flag_values.build(
        FeatureOptions, static_shapes=strategy_flags.on_tpu()
    )
