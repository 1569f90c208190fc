"""Flags of how a model is fine-tuned: length, loss, several runs, a vote."""

from absl import flags

from common.errors import UserError
from flags import flag_values
from flags.tasks import finetune_flags
from training.finetuning.options import BALANCED, FinetuneOptions
from training.run_options import RunOptions

FLAGS = flags.FLAGS


def define(max_seq_length: int, command: str = "", **defaults) -> None:
    """Registers these flags and those of `finetune_flags`, with its arguments."""
    finetune_flags.define(max_seq_length, command, **defaults)
    define_training()
    flag_values.define(FinetuneOptions, *finetune_flags.RUNS)


def define_training() -> None:
    """Registers how long a training is and what its best step is."""
    flag_values.define(FinetuneOptions, *finetune_flags.TRAINING)
    flag_values.define(RunOptions, "patience")


def from_flags() -> FinetuneOptions:
    """What to do; call `finetune_flags.apply_recipe` and `adopt` before.

    Raises UserError: a value is out of range, or flags that exclude each other.
    """
    balanced = FLAGS.class_weights == [BALANCED]
    return training_from_flags(
        class_weights=(BALANCED,)
        if balanced
        else flag_values.numbers("class_weights", FLAGS.class_weights),
    )


def training_from_flags(**more) -> FinetuneOptions:
    """What `define_training` and `finetune_flags` say, and fields of no flag.

    Raises UserError: both --train_epochs and --train_steps.
    """
    run = {"patience": FLAGS.patience}
    if FLAGS.train_epochs:
        if FLAGS["train_steps"].present:
            raise UserError("give one of --train_epochs and --train_steps")
        # Until the examples are counted, any number that the others allow.
        run["train_steps"] = max(
            FLAGS.train_steps,
            FLAGS.warmup_steps + FLAGS.decay_steps + 1,
            FLAGS.average_last,
        )
    return finetune_flags.from_flags(run, **more)
