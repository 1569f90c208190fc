"""Flags of run_tagger.py."""

from absl import flags

from common.errors import UserError
from data.finetuning.options import TaggingDataOptions
from flags import flag_values, tuning_flags

FLAGS = flags.FLAGS


def define() -> None:
    """Registers the flags."""
    default = TaggingDataOptions
    tuning_flags.define(max_seq_length=128, eval_batch_size=32)
    flags.DEFINE_string(
        "data_dir",
        "",
        "Folder with train, dev and test files: NAME.conll, .txt, .tsv, .bio "
        "(a token and its tag per line) or NAME.jsonl (text and spans).",
    )
    flags.DEFINE_string("train_file", "", "File to train on.")
    flags.DEFINE_string("eval_file", "", "Labelled file to evaluate.")
    flags.DEFINE_string("predict_file", "", "File to predict.")
    flags.DEFINE_integer(
        "text_column", default.text_column, "Column of the token, from 0."
    )
    flags.DEFINE_integer(
        "tag_column", default.tag_column, "Column of the tag; -1 = the last."
    )
    flags.DEFINE_string(
        "token_separator",
        default.token_separator,
        "What stands between tokens in the text; auto = a blank, but not "
        "between characters of scripts that are written without.",
    )
    flags.DEFINE_list(
        "labels",
        [],
        "Tags in the order of the logits; default: those of the training file.",
    )
    flags.DEFINE_integer(
        "doc_stride",
        default.doc_stride,
        "Pieces between the starts of two windows of a long text.",
    )


def from_flags() -> TaggingDataOptions:
    """The task; `tuning_flags.from_flags` is the rest.

    Raises:
      UserError: no file is named, or a flag that has no meaning here.
    """
    if not (
        FLAGS.data_dir
        or FLAGS.train_file
        or FLAGS.eval_file
        or FLAGS.predict_file
        or FLAGS.do_export
    ):
        raise UserError(
            "give --data_dir, or --train_file, --eval_file, --predict_file"
        )
    if FLAGS.segment_recurrence:
        raise UserError(
            "--segment_recurrence: run_tagger.py cuts long texts into windows "
            "(--doc_stride); leave it out"
        )
    return flag_values.build(TaggingDataOptions)
