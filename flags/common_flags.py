"""Flags of every training command: folders, sizes, intervals."""

from absl import flags

from flags import optim_flags, strategy_flags, weights_flags
from flags.finetune_recipes import Recipe, describe
from training.options import MEMORY_CHECKPOINTS, RunOptions

FLAGS = flags.FLAGS


def define(**defaults) -> None:
    """Registers these flags and those of optimizer and strategy.

    Args:
      **defaults: values that differ from `RunOptions` and
        `OptimizerOptions`, by flag name.
    """
    optim_flags.define(**defaults)
    strategy_flags.define()
    get = {
        f: getattr(RunOptions, f)
        for f in (
            "train_steps",
            "train_batch_size",
            "eval_batch_size",
            "iterations",
            "save_steps",
            "max_save",
        )
    } | defaults
    _define_folders()
    _define_steps(get)


def _define_folders() -> None:
    flags.DEFINE_string(
        "model_dir",
        None,
        "Folder of the run: checkpoints, xlnet_config.json, run.json, "
        "losses.tsv, TensorBoard files. A run goes on from what is there.",
        required=True,
    )
    flags.DEFINE_string(
        "init_checkpoint",
        None,
        "Warm start: a checkpoint of ours, a TF1 one or a Hugging Face "
        "folder; used when --model_dir has no checkpoint yet.",
    )
    weights_flags.define()


def _define_steps(get: dict) -> None:
    flags.DEFINE_integer(
        "train_steps", get["train_steps"], "Optimizer steps of the whole run."
    )
    flags.DEFINE_integer(
        "train_batch_size",
        get["train_batch_size"],
        "Rows per optimizer step, over all replicas and accumulation steps.",
    )
    flags.DEFINE_integer(
        "eval_batch_size",
        get["eval_batch_size"],
        "Rows per evaluation step over all replicas.",
    )
    flags.DEFINE_integer(
        "grad_accumulation_steps",
        RunOptions.grad_accumulation_steps,
        "The training batch goes through in so many equal parts.",
    )
    flags.DEFINE_integer(
        "iterations", get["iterations"], "Steps per host loop and log line."
    )
    flags.DEFINE_integer(
        "save_steps",
        get["save_steps"],
        "A checkpoint at every multiple of so many steps; 0 = at the end.",
    )
    flags.DEFINE_integer(
        "max_save", get["max_save"], "Checkpoints that are kept; 0 = all."
    )
    flags.DEFINE_bool(
        "async_save",
        RunOptions.async_save,
        "Copy what is saved and write it beside the next steps.",
    )
    flags.DEFINE_integer(
        "eval_every",
        RunOptions.eval_every,
        "Evaluate at every multiple of so many steps; 0 = at the end.",
    )
    flags.DEFINE_integer(
        "eval_steps",
        RunOptions.eval_steps,
        "Batches per evaluation; -1 = the whole set, as fine-tuning wants it.",
    )
    flags.DEFINE_float(
        "max_hours",
        RunOptions.max_hours,
        "Save and stop cleanly after so many hours; 0 = off.",
    )
    flags.DEFINE_enum(
        "progress",
        RunOptions.progress,
        ["auto", "lines", "none"],
        "A bar on a terminal and lines elsewhere, always lines, or nothing.",
    )


def define_memory() -> None:
    """Registers what happens to recurrent memory between two starts."""
    flags.DEFINE_bool(
        "reset_memory",
        RunOptions.reset_memory,
        "Start with empty memory instead of the checkpoint's; needed when the "
        "batch size changes.",
    )
    flags.DEFINE_enum(
        "memory_checkpoint",
        RunOptions.memory_checkpoint,
        MEMORY_CHECKPOINTS,
        "exact: checkpoints hold the recurrent memory. recompute: they do not; "
        "after a restart it is made again from the segments before, not bit "
        "for bit. none: it starts empty.",
    )


def memory_from_flags() -> dict:
    """Fields of `RunOptions`."""
    return {
        "reset_memory": FLAGS.reset_memory,
        "memory_checkpoint": FLAGS.memory_checkpoint,
    }


def from_flags(**changes) -> RunOptions:
    """The parsed flags as `RunOptions`.

    Args:
      **changes: fields that the command sets itself.

    Raises:
      UserError: a value is out of range.
    """
    values = dict(
        model_dir=FLAGS.model_dir,
        init_checkpoint=FLAGS.init_checkpoint,
        checkpoint_choice=weights_flags.from_flags(),
        train_steps=FLAGS.train_steps,
        train_batch_size=FLAGS.train_batch_size,
        eval_batch_size=FLAGS.eval_batch_size,
        grad_accumulation_steps=FLAGS.grad_accumulation_steps,
        iterations=FLAGS.iterations,
        save_steps=FLAGS.save_steps,
        max_save=FLAGS.max_save,
        async_save=FLAGS.async_save,
        eval_every=FLAGS.eval_every,
        eval_steps=FLAGS.eval_steps,
        max_hours=FLAGS.max_hours,
        progress=FLAGS.progress,
    )
    if "optimizer" not in changes:
        values["optimizer"] = optim_flags.from_flags()
    if "strategy" not in changes:
        values["strategy"] = strategy_flags.from_flags()
    return RunOptions(**(values | changes))


def all_flags() -> dict:
    """Name -> value of every flag that this project defines."""
    found = {}
    for module, defined in FLAGS.flags_by_module_dict().items():
        if module.startswith(("flags.", "run_")) or module == "__main__":
            found |= {flag.name: flag.value for flag in defined}
    return found


def give_recipe(name: str, recipe: Recipe) -> list[str]:
    """Gives flags that were not given the recipe's values.

    Returns:
      Lines that list every value and its source.
    """
    given = {}
    for flag, value in (recipe.flags | recipe.assumed).items():
        if FLAGS[flag].present:
            given[flag] = FLAGS[flag].value
        else:
            FLAGS.set_default(flag, value)
    return describe(name, recipe, given).splitlines()
