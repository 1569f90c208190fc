"""Flags of run_squad.py."""

from absl import flags

from common.errors import UserError
from data.finetuning.options import SquadDataOptions
from flags import flag_values, tuning_flags

FLAGS = flags.FLAGS


def define() -> None:
    """Registers the flags."""
    default = SquadDataOptions
    tuning_flags.define(max_seq_length=512, eval_batch_size=32)
    flags.DEFINE_string(
        "train_file",
        "",
        "SQuAD 1.1 or 2.0 JSON to train on; several with commas.",
    )
    flags.DEFINE_list(
        "train_weights",
        [],
        "How often a window of each training file is drawn, relatively; "
        "default: all alike.",
    )
    flags.DEFINE_string(
        "predict_file", "", "SQuAD JSON to evaluate and predict."
    )
    flags.DEFINE_integer(
        "max_query_length",
        default.max_query_length,
        "Longest question in tokens; the rest is cut.",
    )
    flags.DEFINE_integer(
        "doc_stride",
        default.doc_stride,
        "Tokens between the starts of two windows of a paragraph.",
    )
    flags.DEFINE_integer(
        "n_best_size", default.n_best_size, "Answers kept per question."
    )
    flags.DEFINE_integer(
        "max_answer_length",
        default.max_answer_length,
        "Longest answer in tokens.",
    )
    flags.DEFINE_integer(
        "start_n_top", default.start_n_top, "Starts that the beam keeps."
    )
    flags.DEFINE_integer(
        "end_n_top", default.end_n_top, "Ends that the beam keeps per start."
    )
    flags.DEFINE_float(
        "null_score_diff_threshold",
        None,
        "Null odds above it make a prediction empty; default: never, as the "
        "original writes (its evaluation searches the threshold).",
    )
    flags.DEFINE_bool(
        "original_last_token_bug",
        False,
        "Never answer with the last paragraph token of a window, as the "
        "original does.",
    )


def from_flags() -> SquadDataOptions:
    """The task; `tuning_flags.from_flags` is the rest.

    Raises:
      UserError: a weight is no number, or see `SquadDataOptions`.
    """
    try:
        weights = tuple(map(float, FLAGS.train_weights))
    except ValueError as e:
        raise UserError(f"--train_weights: {e}") from e
    return flag_values.build(SquadDataOptions, train_weights=weights)
