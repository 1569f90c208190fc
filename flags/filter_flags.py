"""Flags of `python -m data.filter_corpus`."""

from absl import flags

from data.corpus.options import FilterOptions

FLAGS = flags.FLAGS
_NAMES = (
    "input_glob",
    "output_file",
    "text_field",
    "min_characters",
    "max_symbol_ratio",
    "max_repeated_lines",
    "near_duplicates",
    "max_boilerplate",
    "boilerplate_documents",
    "dry_run",
    "examples",
    "num_workers",
)


def define() -> None:
    """Registers the filter's flags."""
    flags.DEFINE_string(
        "input_glob",
        None,
        "Text (documents divided by an empty line) or .jsonl files, plain or "
        ".gz; commas separate patterns.",
        required=True,
    )
    flags.DEFINE_string(
        "output_file", "", "Text file that is written, or JSONL by its name."
    )
    flags.DEFINE_string(
        "text_field", FilterOptions.text_field, "Text field of JSONL files."
    )
    _define_rules()
    flags.DEFINE_bool(
        "dry_run", False, "Count and show examples; write nothing."
    )
    flags.DEFINE_integer(
        "examples", FilterOptions.examples, "Examples of each reason."
    )
    flags.DEFINE_integer(
        "num_workers",
        FilterOptions.num_workers,
        "Processes; any number gives the same bytes.",
    )


def _define_rules() -> None:
    flags.DEFINE_integer(
        "min_characters",
        FilterOptions.min_characters,
        "Leave out shorter documents.",
    )
    flags.DEFINE_float(
        "max_symbol_ratio",
        FilterOptions.max_symbol_ratio,
        "Leave out documents with a larger share of characters that are no "
        "letters, marks, numbers or white space; 1 = none.",
    )
    flags.DEFINE_list(
        "languages",
        [],
        "Leave out documents in other languages, e.g. en,de; empty = none. "
        "Needs requirements-corpus.txt.",
    )
    flags.DEFINE_float(
        "max_repeated_lines",
        FilterOptions.max_repeated_lines,
        "Leave out documents with a larger share of characters in lines that "
        "came before in the document; 1 = none.",
    )
    flags.DEFINE_float(
        "near_duplicates",
        FilterOptions.near_duplicates,
        "Leave out documents that share so much with an earlier one (Jaccard "
        "index of runs of five words, estimated); 1 = exact copies only. "
        "Needs requirements-corpus.txt.",
    )
    flags.DEFINE_float(
        "max_boilerplate",
        FilterOptions.max_boilerplate,
        "Leave out documents with a larger share of characters in lines that "
        "stand in --boilerplate_documents documents; 1 = none.",
    )
    flags.DEFINE_integer(
        "boilerplate_documents",
        FilterOptions.boilerplate_documents,
        "A line in so many documents is boilerplate.",
    )


def from_flags() -> FilterOptions:
    """The parsed flags as options."""
    values = {name: getattr(FLAGS, name) for name in _NAMES}
    return FilterOptions(**values, languages=tuple(FLAGS.languages))
