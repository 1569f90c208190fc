"""Flags of what a table's label is: a class, a number, or several names."""

from absl import flags

from common.errors import UserError

FLAGS = flags.FLAGS


def define() -> None:
    """Registers the flags."""
    flags.DEFINE_bool(
        "is_regression", False, "tsv, csv, jsonl: the label is a number."
    )
    flags.DEFINE_bool(
        "multi_label",
        False,
        "tsv, csv, jsonl: a row may have several labels or none.",
    )


def from_flags() -> str:
    """One of `data.finetuning.options.CLASSIFIER_HEADS`.

    Raises UserError: flags that exclude each other.
    """
    if FLAGS.is_regression and FLAGS.multi_label:
        raise UserError("give one of --is_regression and --multi_label")
    if FLAGS.multi_label:
        return "multi_label"
    return "regression" if FLAGS.is_regression else "classification"
