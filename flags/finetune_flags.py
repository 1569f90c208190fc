"""Flags that run_classifier.py, run_squad.py and run_race.py share."""

import os

from absl import flags

from common.errors import UserError
from common.text_settings import TextChoice, TextSettings
from data import task_spec
from data.finetuning import task_settings
from data.finetuning.options import FeatureOptions
from data.symbols import CLS_LAST
from data.task_spec import TaskSpec
from flags import (
    common_flags,
    finetune_recipes,
    flag_values,
    strategy_flags,
    text_flags,
)
from training.finetuning.options import POOLINGS, SUMMARY_TYPES, FinetuneOptions
from training.options import EXPORT_PRECISIONS

FLAGS = flags.FLAGS

# Fields of the architecture's file that a fine-tuning run may change.
CONFIG_FLAGS = (
    "dropout",
    "dropatt",
    "activation_dropout",
    "clamp_len",
    "blind_rows",
)


def define(max_seq_length: int, **defaults) -> None:
    """Registers these flags and those of `common_flags`.

    Args:
      max_seq_length: default of that flag.
      **defaults: defaults of `common_flags`, by flag name.
    """
    common_flags.define(**defaults)
    _define_actions()
    _define_features(max_seq_length)
    _define_model()


def _define_actions() -> None:
    flags.DEFINE_string(
        "recipe",
        None,
        "Preset of Table 8 of the paper, e.g. race, squad_large_v1; flags "
        "that are given override it.",
    )
    flags.DEFINE_bool("do_train", False, "Train on the train split.")
    flags.DEFINE_bool("do_eval", False, "Evaluate on the labelled dev split.")
    flags.DEFINE_bool(
        "do_predict", False, "Write predictions of the test (or dev) split."
    )
    flags.DEFINE_bool("do_export", False, "Write a SavedModel.")
    flags.DEFINE_string(
        "predict_dir",
        "",
        "Where predictions go; default MODEL_DIR/predictions.",
    )
    flags.DEFINE_string(
        "predict_ckpt",
        "",
        "Checkpoint to evaluate, predict and export with; default: what "
        "--checkpoint_choice says.",
    )
    flags.DEFINE_integer(
        "predict_batch_size",
        0,
        "Rows per prediction step; 0 = --eval_batch_size.",
    )
    flags.DEFINE_bool(
        "eval_all_ckpt",
        False,
        "Evaluate every checkpoint of --model_dir and go on with the best.",
    )
    flags.DEFINE_string(
        "export_dir", "", "SavedModel folder; default MODEL_DIR/export."
    )
    flags.DEFINE_enum(
        "export_precision",
        "float32",
        EXPORT_PRECISIONS,
        "Of the SavedModel; mixed_bfloat16 has half the size.",
    )


def _define_features(max_seq_length: int) -> None:
    flags.DEFINE_string(
        "spiece_model_file",
        "",
        "SentencePiece model; default: the copy in --model_dir or beside "
        "--init_checkpoint.",
    )
    flags.DEFINE_integer(
        "max_seq_length", max_seq_length, "Longest input in tokens."
    )
    text_flags.define()
    flags.DEFINE_bool(
        "skip_bad_rows",
        False,
        "Leave rows that cannot be used out, and count them, instead of "
        "stopping at the first one.",
    )
    flags.DEFINE_integer(
        "num_proc",
        1,
        "Processes that make features; 0 = one per core.",
    )
    flags.DEFINE_string(
        "output_dir",
        "",
        "Keep features here under a hash of data, vocabulary and options; "
        "empty = do not keep them.",
    )
    flags.DEFINE_string(
        "length_buckets",
        "",
        'Shorter batches for shorter texts: rising lengths such as "64,128" '
        'or "auto"; empty = always --max_seq_length.',
    )
    flags.DEFINE_bool(
        "pack",
        False,
        "Short texts share a row and see themselves only: the same results in "
        "less time, for encoders without memory.",
    )
    flags.DEFINE_integer(
        "segment_recurrence",
        0,
        "Read texts longer than --max_seq_length in up to so many segments "
        "that carry memory; 0 = cut them.",
    )


def _define_model() -> None:
    flags.DEFINE_string(
        "model_config_path",
        "",
        "Architecture (xlnet_config.json); default: the one beside the "
        "checkpoint.",
    )
    flags.DEFINE_float(
        "dropout", None, "Dropout; default: the architecture file's."
    )
    flags.DEFINE_float(
        "dropatt", None, "Attention dropout; default: the file's."
    )
    flags.DEFINE_float(
        "activation_dropout",
        None,
        "Dropout after the feed-forward activation; default: the file's.",
    )
    flags.DEFINE_integer(
        "clamp_len",
        None,
        "Clamp distances at so many tokens; default: the file's.",
    )
    flags.DEFINE_enum(
        "blind_rows",
        None,
        ["zero", "original"],
        "What query rows that see no key get; of importance to pretraining "
        "and generation alone. Default: the file's.",
    )
    flags.DEFINE_enum(
        "summary_type",
        None,
        SUMMARY_TYPES,
        "How hidden states become one vector; default: CLS, which is the last "
        "real token of XLNet's rows and the first of others'.",
    )
    flags.DEFINE_bool(
        "use_summ_proj", True, "Project that vector through tanh."
    )
    flags.DEFINE_enum(
        "pooling",
        POOLINGS[0],
        POOLINGS,
        "What mean, first and last look at: masked = real tokens, original = "
        "padding, too, as in a checkpoint that the original fine-tuned.",
    )


def apply_recipe(command: str) -> list[str]:
    """Gives flags that were not given the recipe's values.

    Args:
      command: the running command's file name.

    Returns:
      Lines that list every value and its source; empty without a recipe.

    Raises:
      UserError: unknown recipe, or one of another command.
    """
    if not FLAGS.recipe:
        return []
    name, recipe = finetune_recipes.find(FLAGS.recipe)
    if recipe.command != command:
        raise UserError(f"--recipe={name} is for {recipe.command}")
    return common_flags.give_recipe(name, recipe)


def trained_folder() -> str | None:
    """The folder whose task.json tells the settings of this run's model.

    While training that is --model_dir. An evaluation may read other weights:
    theirs, too, lie beside their task.json.
    """
    places = [FLAGS.model_dir]
    if not FLAGS.do_train:
        places = [FLAGS.predict_ckpt, *places, FLAGS.init_checkpoint]
    found = (task_spec.find_folder(p) for p in places if p)
    return next((folder for folder in found if folder), None)


def adopt(command: str) -> tuple[TaskSpec | None, list[str]]:
    """Gives flags that were not given the values of the trained model.

    Call it before the flags become options, after `apply_recipe`.

    Args:
      command: of `task_settings.ALL`.

    Returns:
      The model's task.json, None for a new model, and lines that say what
      differs from it.

    Raises:
      UserError: a flag is given that would make it another model.
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
        given = task_settings.plain(flag.value)
        if not flag.present:
            if recipe.get(setting.name, value) != value:
                lines.append(
                    f"note: --{setting.name}={value} as {path} says, not the "
                    f"recipe's {given}"
                )
            FLAGS.set_default(setting.name, value)
        elif given != value:
            lines.append(
                task_settings.difference(setting, path, value, flag.value)
            )
    return spec, lines


def from_flags(run: dict | None = None, **more) -> FinetuneOptions:
    """What to do; call `apply_recipe` and `adopt` before.

    Args:
      run: fields of `RunOptions` that the command sets itself.
      **more: fields of `FinetuneOptions` that are none of these flags.
    """
    changes = {
        name: FLAGS[name].value
        for name in CONFIG_FLAGS
        if FLAGS[name].value is not None
    }
    return FinetuneOptions(
        run=common_flags.from_flags(**run or {}),
        do_train=FLAGS.do_train,
        do_eval=FLAGS.do_eval,
        do_predict=FLAGS.do_predict,
        do_export=FLAGS.do_export,
        model_config_path=FLAGS.model_config_path,
        config_changes=changes,
        summary_type=FLAGS.summary_type,
        use_summ_proj=FLAGS.use_summ_proj,
        pooling=FLAGS.pooling,
        recompute_layers=strategy_flags.recompute_layers(),
        pack=FLAGS.pack,
        predict_dir=FLAGS.predict_dir,
        predict_ckpt=FLAGS.predict_ckpt,
        predict_batch_size=FLAGS.predict_batch_size,
        eval_all_ckpt=FLAGS.eval_all_ckpt,
        export_dir=FLAGS.export_dir,
        export_precision=FLAGS.export_precision,
        **more,
    )


def features_from_flags(
    spiece_model_file: str,
    text: TextSettings | None = None,
    layout: str = CLS_LAST,
) -> FeatureOptions:
    """How text becomes features.

    Args:
      spiece_model_file: what --spiece_model_file resolved to.
      text: what the flags of the text settings resolved to.
      layout: of the encoder's rows.
    """
    return flag_values.build(
        FeatureOptions,
        spiece_model_file=spiece_model_file,
        text=text or text_choice(),
        num_workers=FLAGS.num_proc,
        cache_dir=FLAGS.output_dir,
        static_shapes=strategy_flags.on_tpu(),
        layout=layout,
    )


def spiece_model_file() -> str:
    """--spiece_model_file as given, "" without."""
    return FLAGS.spiece_model_file


def text_choice() -> TextChoice:
    """--text_rule, --uncased and --keep_accents."""
    return text_flags.from_flags()
