"""Flags of `python -m data.inspect`."""

from absl import flags

from data.pretraining.options import (
    INSPECT_MODES,
    INSPECT_SPLITS,
    InspectOptions,
)
from flags import flag_values

FLAGS = flags.FLAGS


def define() -> None:
    """Registers the flags."""
    flags.DEFINE_string(
        "data_dir", None, "Folder with the builder's output.", required=True
    )
    flags.DEFINE_enum(
        "mode", InspectOptions.mode, INSPECT_MODES, "What to do with the data."
    )
    flags.DEFINE_enum(
        "split",
        InspectOptions.split,
        INSPECT_SPLITS,
        "Split whose records are shown.",
    )
    flags.DEFINE_enum(
        "direction",
        InspectOptions.direction,
        ("forward", "backward"),
        "Direction whose records are shown.",
    )
    flags.DEFINE_integer(
        "pass_number", InspectOptions.pass_number, "Stored pass to show."
    )
    flags.DEFINE_integer("lane", InspectOptions.lane, "Lane to show.")
    flags.DEFINE_integer("segment", InspectOptions.segment, "Segment to show.")
    flags.DEFINE_integer(
        "record_number",
        InspectOptions.record_number,
        "Record of a token stream to show.",
    )
    flags.DEFINE_string(
        "spiece_model_file",
        InspectOptions.spiece_model_file,
        "SentencePiece model of the data; default: the copy in --data_dir.",
    )
    flags.DEFINE_integer(
        "mask_size",
        InspectOptions.mask_size,
        "Rows and columns of the mask to print.",
    )
    flags.DEFINE_integer(
        "max_records",
        InspectOptions.max_records,
        "Records that the statistics read; 0 = all.",
    )
    flags.DEFINE_string(
        "plot_file",
        InspectOptions.plot_file,
        "PNG that receives the statistics; empty = none.",
    )


def from_flags() -> InspectOptions:
    """The parsed flags as options."""
    return flag_values.build(InspectOptions)
