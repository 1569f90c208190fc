"""Flags of `python -m data.convert_corpus`."""

from absl import flags

from data.corpus.options import CORPUS_LAYOUTS, ConvertOptions
from flags import flag_values

FLAGS = flags.FLAGS


def define() -> None:
    """Registers the converter's flags."""
    flags.DEFINE_string(
        "input_glob", None, "Files to convert, plain or .gz.", required=True
    )
    flags.DEFINE_string(
        "output_file", None, "Text file that is written.", required=True
    )
    flags.DEFINE_enum(
        "layout", ConvertOptions.layout, CORPUS_LAYOUTS, "Layout of the input."
    )
    flags.DEFINE_bool(
        "paragraphs", ConvertOptions.paragraphs, "End paragraphs with <eop>."
    )


def from_flags() -> ConvertOptions:
    """The parsed flags as options."""
    return flag_values.build(ConvertOptions)
