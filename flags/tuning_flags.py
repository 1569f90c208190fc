"""Flags of how a model is fine-tuned: length, loss, several runs, a vote."""

from absl import flags
from absl.testing import flagsaver

from common.errors import UserError
from flags import common_flags, finetune_flags, flag_values
from training.finetuning.options import BALANCED, FinetuneOptions

FLAGS = flags.FLAGS


def define(max_seq_length: int, **defaults) -> None:
    """Registers these flags and those of `finetune_flags`, with its arguments."""
    finetune_flags.define(max_seq_length, **defaults)
    define_training()
    _define_runs()


def define_training() -> None:
    """Registers how long a training is and what its best step is."""
    flags.DEFINE_float(
        "train_epochs",
        0.0,
        "Passes over the training examples, instead of --train_steps.",
    )
    flags.DEFINE_string(
        "best_metric",
        "",
        "Dev metric that picks the best checkpoint, e.g. macro_f1 or loss; "
        "default: the task's first one.",
    )
    flags.DEFINE_integer(
        "patience",
        0,
        "Stop after so many evaluations (--eval_every) without a better "
        "--best_metric; 0 = never.",
    )


def _define_runs() -> None:
    flags.DEFINE_list(
        "class_weights",
        [],
        "Weights of the classes in the training loss, in the order of the "
        'labels, or "balanced".',
    )
    flags.DEFINE_float(
        "label_smoothing",
        0.0,
        "Share of the training target that goes to all classes alike.",
    )
    flags.DEFINE_string(
        "init_head",
        "",
        "Begin with the head of this task, e.g. mnli for rte, of the model in "
        "--init_checkpoint; labels of the same name begin as those.",
    )
    flags.DEFINE_bool(
        "dry_run",
        False,
        "Check data, checkpoints, folders and disk, compute one step and one "
        "batch of every split, write nothing.",
    )
    flags.DEFINE_integer(
        "num_seeds",
        1,
        "So many runs, from --seed on, each in a folder seed_N of --model_dir; "
        "median, mean and deviation of their metrics.",
    )
    flags.DEFINE_list(
        "ensemble",
        [],
        "Folders of trained models that answer together; --model_dir gets "
        "their common metrics and predictions.",
    )
    flags.DEFINE_list(
        "ensemble_weights",
        [],
        "A positive number for each of --ensemble; default: all alike.",
    )
    flags.DEFINE_bool(
        "greedy",
        False,
        "Of --ensemble take only the models that make the dev metric better, "
        "the best one first.",
    )
    flags.DEFINE_integer(
        "train_examples",
        0,
        "Train on so many of the training examples, drawn with --seed; 0 = "
        "all. Those of a smaller number are among those of a larger one.",
    )
    flags.DEFINE_bool(
        "slice_by_length",
        False,
        "Evaluate the quartiles of the passages' lengths, too: "
        "eval_<split>_by_length.json in --model_dir.",
    )


def from_flags() -> FinetuneOptions:
    """What to do; call `finetune_flags.apply_recipe` and `adopt` before.

    Raises:
      UserError: a value is out of range, or flags that exclude each other.
    """
    balanced = FLAGS.class_weights == [BALANCED]
    return training_from_flags(
        class_weights=(BALANCED,)
        if balanced
        else flag_values.numbers("class_weights", FLAGS.class_weights),
        label_smoothing=FLAGS.label_smoothing,
        init_head=FLAGS.init_head,
        dry_run=FLAGS.dry_run,
        num_seeds=FLAGS.num_seeds,
        ensemble=tuple(FLAGS.ensemble),
        ensemble_weights=flag_values.numbers(
            "ensemble_weights", FLAGS.ensemble_weights
        ),
        greedy=FLAGS.greedy,
        train_examples=FLAGS.train_examples,
        slice_by_length=FLAGS.slice_by_length,
    )


def training_from_flags(**more) -> FinetuneOptions:
    """What `define_training` and `finetune_flags` say.

    Args:
      **more: fields of `FinetuneOptions` that are none of these flags.

    Raises:
      UserError: both --train_epochs and --train_steps.
    """
    run = {"patience": FLAGS.patience}
    if FLAGS.train_epochs:
        if FLAGS["train_steps"].present:
            raise UserError("give one of --train_epochs and --train_steps")
        # Until the examples are counted, any number above the warm-up.
        run["train_steps"] = max(FLAGS.train_steps, FLAGS.warmup_steps + 1)
    return finetune_flags.from_flags(
        run,
        train_epochs=FLAGS.train_epochs,
        best_metric=FLAGS.best_metric,
        **more,
    )


def read(command: str, task: str, data_from_flags, **changes) -> dict:
    """Everything that a fine-tuning command's flags say.

    Args:
      command: its file name, which recipes name.
      task: of `task_settings.ALL`.
      data_from_flags: task.json of the trained model or None -> the task's
        own options.
      **changes: values of flags, for this reading alone.

    Returns:
      The fields of `training.finetuning.command.Request`.

    Raises:
      UserError: a flag that does not fit the others or the trained model.
    """
    with flagsaver.flagsaver(**changes):
        lines = finetune_flags.apply_recipe(command)
        trained, notes = finetune_flags.adopt(task)
        spiece = finetune_flags.spiece_model_file()
        return {
            "options": from_flags(),
            "data": data_from_flags(trained),
            "features": finetune_flags.features_from_flags(spiece),
            "trained": trained,
            "notes": (*lines, *notes),
            "flags": common_flags.all_flags(),
        }
