"""Flags of `serving.predict`."""

from absl import flags

from flags import flag_values
from serving.options import EnsembleOptions, PredictOptions

FLAGS = flags.FLAGS


def define() -> None:
    """Registers the flags of batch prediction."""
    flags.DEFINE_string(
        "saved_model_dir",
        None,
        "Exported version folder, or its parent (the newest is taken).",
        required=True,
    )
    _define_rows()


def define_ensemble() -> None:
    """Registers the flags of several models that answer together."""
    flags.DEFINE_list(
        "ensemble",
        None,
        "Exported version folders, or their parents, of the same task.",
        required=True,
    )
    flags.DEFINE_list(
        "ensemble_weights",
        [],
        "A positive number for each of --ensemble; default: all alike.",
    )
    _define_rows()


def _define_rows() -> None:
    default = PredictOptions
    flags.DEFINE_multi_string(
        "text",
        [],
        "Text to predict; may be given again. A model of several texts takes "
        "them divided by tabs.",
    )
    flags.DEFINE_string(
        "input_file",
        default.input_file,
        "Rows to predict: .csv, .tsv or .jsonl with the columns of training, "
        "else one row per line with tabs between texts; plain, .gz or .xz.",
    )
    flags.DEFINE_string(
        "output_file",
        default.output_file,
        "JSONL with one answer per row, in input order; standard output if "
        "not given. An interrupted run goes on where it stopped.",
    )
    flags.DEFINE_integer(
        "predict_batch_size", default.batch_size, "Rows per call of the model."
    )
    flags.DEFINE_integer(
        "max_chars", default.max_chars, "Longest text in characters."
    )
    flags.DEFINE_bool(
        "skip_bad_rows",
        default.skip_bad_rows,
        'Answer bad rows with {"error": ...} instead of stopping there.',
    )
    flags.DEFINE_bool(
        "trust_model",
        default.trust_model,
        "Run a SavedModel whose graph holds operations on files or Python; it "
        "can do whatever you can.",
    )
    _define_columns()


def _define_columns() -> None:
    default = PredictOptions
    flags.DEFINE_list(
        "text_columns",
        list(default.text_columns),
        "Columns of the texts in order, names or numbers from 0; default: "
        "those of training.",
    )
    flags.DEFINE_string(
        "label_column",
        default.label_column,
        "Column of the true label, which the answers then repeat.",
    )
    flags.DEFINE_string(
        "key_column",
        default.key_column,
        "Column that names the rows in the answers; default: id, guid, key, "
        "index, idx or uid, else rows are numbered from 0.",
    )
    flags.DEFINE_bool(
        "has_header",
        default.has_header,
        "Whether the first row of .csv and .tsv holds names; default: where "
        "it holds those of the texts.",
    )


def from_flags() -> PredictOptions:
    """The parsed flags as options."""
    return flag_values.build(
        PredictOptions, batch_size=FLAGS.predict_batch_size
    )


def ensemble_from_flags() -> EnsembleOptions:
    """The parsed flags of `define_ensemble` as options.

    Raises:
      UserError: a value is out of range.
    """
    return EnsembleOptions(
        flag_values.build(
            PredictOptions,
            saved_model_dir="",
            batch_size=FLAGS.predict_batch_size,
        ),
        tuple(FLAGS.ensemble),
        flag_values.numbers("ensemble_weights", FLAGS.ensemble_weights),
    )
