"""Flags of `serving.export`."""

from absl import flags

from flags import flag_values, text_flags, weights_flags
from serving.options import ExportOptions
from training.options import EXPORT_PRECISIONS

FLAGS = flags.FLAGS


def define() -> None:
    """Registers the flags of the export."""
    default = ExportOptions
    flags.DEFINE_string(
        "model_dir",
        None,
        "Directory of a fine-tuning or pretraining run.",
        required=True,
    )
    flags.DEFINE_string(
        "task",
        default.task,
        "lm for a pretraining run; else not needed, and checked when given.",
    )
    flags.DEFINE_string(
        "checkpoint",
        default.checkpoint,
        "Weights to export; those of --model_dir if not given.",
    )
    flags.DEFINE_string(
        "spiece_model_file",
        default.spiece_model_file,
        "SentencePiece file; MODEL_DIR/spiece.model if not given.",
    )
    flags.DEFINE_string(
        "output_dir",
        default.output_dir,
        "Parent of the version folders; MODEL_DIR/export if not given.",
    )
    flags.DEFINE_string(
        "model_name",
        default.model_name,
        "Name in the warm-up requests, TF-Serving's --model_name.",
    )
    flags.DEFINE_integer(
        "max_seq_length",
        default.max_seq_length,
        "Longest input in tokens; 0 = as trained (lm: 512).",
    )
    flags.DEFINE_enum(
        "precision",
        default.precision,
        EXPORT_PRECISIONS,
        "mixed_bfloat16: half the size; products are computed in bfloat16.",
    )
    text_flags.define()
    weights_flags.define()
    flags.DEFINE_bool(
        "check",
        default.check,
        "Load the result in a fresh process and compare its answers.",
    )


def from_flags() -> ExportOptions:
    """The parsed flags as options."""
    return flag_values.build(ExportOptions, text=text_flags.from_flags())
