"""Flags of `python -m data.create_lm_data`."""

from absl import flags

from data.language_modeling.options import (
    DATASETS,
    VOCAB_SOURCES,
    LMDataOptions,
)
from data.records.options import RUNNERS

FLAGS = flags.FLAGS
_UNITS = ("word", "char", "byte", "piece")
_LINE_ENDS = ("eos", "marks", "mark", "newline", "none")
_NAMES = (
    "output_dir",
    "dataset",
    "data_path",
    "train_glob",
    "valid_glob",
    "test_glob",
    "unit",
    "line_end",
    "lower_case",
    "vocab_file",
    "vocab_from",
    "unknown",
    "min_count",
    "max_symbols",
    "held_out_size",
    "record_tokens",
    "text_field",
    "block_megabytes",
    "num_workers",
    "runner",
    "beam_options",
)


def define() -> None:
    """Registers the builder's flags."""
    _define_text()
    _define_vocabulary()
    _define_run()


def _define_text() -> None:
    """Text in, where records go."""
    flags.DEFINE_string(
        "output_dir", None, "Folder that receives the records.", required=True
    )
    flags.DEFINE_enum(
        "dataset",
        LMDataOptions.dataset,
        DATASETS,
        "Official data set, read as the original reads it, or any text.",
    )
    flags.DEFINE_string(
        "data_path",
        LMDataOptions.data_path,
        "Folder of the official data set; enwik8 and text8: or the file.",
    )
    flags.DEFINE_string(
        "train_glob",
        LMDataOptions.train_glob,
        "Text or .jsonl files of the train split, for --dataset=text; commas separate patterns.",
    )
    flags.DEFINE_string(
        "valid_glob",
        LMDataOptions.valid_glob,
        "Text or .jsonl files of the valid split, for --dataset=text; commas separate patterns.",
    )
    flags.DEFINE_string(
        "test_glob",
        LMDataOptions.test_glob,
        "Text or .jsonl files of the test split, for --dataset=text; commas separate patterns.",
    )
    flags.DEFINE_string(
        "text_field",
        LMDataOptions.text_field,
        "Field of JSONL files that holds the text.",
    )
    flags.DEFINE_integer(
        "held_out_size",
        LMDataOptions.held_out_size,
        "Bytes of the valid and of the test split of enwik8 and text8.",
    )


def _define_vocabulary() -> None:
    """What text is cut into."""
    flags.DEFINE_enum(
        "unit",
        None,
        _UNITS,
        "What a token is; default: the data set's own, word for any text.",
    )
    flags.DEFINE_enum(
        "line_end",
        None,
        _LINE_ENDS,
        "What a line's end becomes: <eos>, <S> around lines (marks) or between them (mark), a newline symbol, nothing; default: the data set's own.",
    )
    flags.DEFINE_bool(
        "lower_case",
        None,
        "Lower-case words and characters; default: the data set's own.",
    )
    flags.DEFINE_string(
        "vocab_file",
        LMDataOptions.vocab_file,
        "Vocabulary to use: vocabulary.json, a SentencePiece .model or a list of words; default: it is counted.",
    )
    flags.DEFINE_enum(
        "vocab_from",
        None,
        VOCAB_SOURCES,
        "Splits that the vocabulary is counted from; fixed = all 256 bytes.",
    )
    flags.DEFINE_enum(
        "unknown",
        LMDataOptions.unknown,
        ("unk", "error"),
        "What is not in the vocabulary becomes <unk>, or is an error.",
    )
    flags.DEFINE_integer(
        "min_count",
        LMDataOptions.min_count,
        "Leave symbols out of the vocabulary that occur less often.",
    )
    flags.DEFINE_integer(
        "max_symbols",
        LMDataOptions.max_symbols,
        "Most frequent symbols that the vocabulary keeps; 0 = all.",
    )


def _define_run() -> None:
    """How the build runs."""
    flags.DEFINE_integer(
        "record_tokens", LMDataOptions.record_tokens, "Tokens of a record."
    )
    flags.DEFINE_float(
        "block_megabytes",
        LMDataOptions.block_megabytes,
        "Text per block, the unit of work, in 1e6 bytes.",
    )
    flags.DEFINE_integer(
        "num_workers",
        LMDataOptions.num_workers,
        "Processes; any number gives the same bytes.",
    )
    flags.DEFINE_enum(
        "runner", LMDataOptions.runner, RUNNERS, "Where the blocks are built."
    )
    flags.DEFINE_string(
        "beam_options",
        LMDataOptions.beam_options,
        "Beam's own command line, for --runner=beam.",
    )


def from_flags() -> LMDataOptions:
    """The parsed flags as options."""
    return LMDataOptions(**{name: getattr(FLAGS, name) for name in _NAMES})
