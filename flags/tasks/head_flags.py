"""Flags of what a table's label is: a class, a number, or several names."""

from absl import flags

from common.errors import UserError
from data.finetuning.options import TABLES, TFDS_PREFIX

FLAGS = flags.FLAGS

WITH_HEADER = ("tsv", "csv")
# Sets that may be tables, too: which they are depends on their files.
TREC = "trec"
# Flags that a set follows only where it is a table.
OF_TABLES = ("text_columns", "label_column", "allow_empty_text")
# Flags of rows that may have several labels.
OF_SEVERAL = ("label_threshold", "label_separator")
OF_WNLI = ("ranking_alpha", "ranking_beta")


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
    """One of `common.heads.CLASSIFIERS`.

    Raises UserError: flags that exclude each other.
    """
    if FLAGS.is_regression and FLAGS.multi_label:
        raise UserError("give one of --is_regression and --multi_label")
    if FLAGS.multi_label:
        return "multi_label"
    return "regression" if FLAGS.is_regression else "classification"


def check(name: str, head: str) -> None:
    """Flags that are given are followed by the set of this name.

    Raises UserError: it is an official one, whose columns and classes are
    known, or has another kind of label, or no row of names; or no rows are held
    out.
    """
    name = name.lower()
    free = name in TABLES or name.startswith((TFDS_PREFIX, TREC))
    header = name in WITH_HEADER or name.startswith(TREC)
    held_out = "dev_fraction" in FLAGS and FLAGS.dev_fraction
    several = head == "multi_label"
    # `data.convert_task` has some of these flags alone.
    ranked = "ranking" in FLAGS and FLAGS.ranking and name == "wnli"
    tables = f"tables ({', '.join(TABLES)}) and {TFDS_PREFIX}NAME"
    for names, follows, whose in (
        (OF_TABLES, free, tables),
        (("has_header",), header, f"tables ({', '.join(WITH_HEADER)})"),
        (("dev_seed",), held_out, "--dev_fraction"),
        (("labels",), free and head != "regression", f"classes of {tables}"),
        (OF_SEVERAL, several, "--multi_label"),
        (OF_WNLI, ranked, "--task_name=wnli --ranking"),
    ):
        given = [n for n in names if n in FLAGS and FLAGS[n].present]
        if given and not follows:
            raise UserError(
                f"--{given[0]} is of {whose}: --task_name={name} would ignore "
                "it, leave it out"
            )
