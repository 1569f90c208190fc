"""Flags of run_classifier.py."""

from absl import flags

from common.errors import UserError
from data.finetuning.options import CLASSIFIER_HEADS, ClassifierDataOptions
from data.task_spec import TaskSpec
from flags import flag_values, tuning_flags

FLAGS = flags.FLAGS


def define() -> None:
    """Registers the flags."""
    tuning_flags.define(max_seq_length=128)
    flags.DEFINE_string(
        "task_name",
        None,
        "mnli, qnli, qqp, rte, sst-2, mrpc, cola, sts-b, wnli, imdb, yelp-2, "
        "yelp-5, dbpedia, ag, amazon-2, amazon-5, tsv, csv, jsonl or "
        "tfds:NAME; any case.",
        required=True,
    )
    flags.DEFINE_string(
        "data_dir", "", "The task's files in their official layout."
    )
    flags.DEFINE_bool(
        "is_regression", False, "tsv, csv, jsonl: the label is a number."
    )
    flags.DEFINE_bool(
        "multi_label",
        False,
        "tsv, csv, jsonl: a row may have several labels or none.",
    )
    flags.DEFINE_list(
        "text_columns",
        [],
        "tsv, csv, jsonl: the columns of text in order, up to 32; default: "
        "those named text, sentence1, question, ...",
    )
    flags.DEFINE_string(
        "label_column", "", "tsv, csv, jsonl: the column of the label."
    )
    flags.DEFINE_bool(
        "has_header",
        True,
        "tsv, csv: the first row names the columns; else they are numbered "
        "from 0.",
    )
    flags.DEFINE_string(
        "label_separator", "|", "Between the labels of a multi-label row."
    )
    flags.DEFINE_bool(
        "allow_empty_text", False, "An empty text is data and not a bad row."
    )
    flags.DEFINE_list(
        "labels",
        [],
        "tsv, csv, jsonl: class names in order; default: those of the "
        "training file, sorted.",
    )
    _define_ranking()
    _define_evaluation()


def _define_ranking() -> None:
    flags.DEFINE_bool(
        "ranking",
        False,
        "qnli, wnli: candidates compete, those of a question in pairs and those "
        "for a pronoun by their probabilities, as in the XLNet paper; see "
        "docs/classification.md.",
    )
    flags.DEFINE_float(
        "ranking_alpha", 5.0, "--ranking, wnli: weight of the margin's loss."
    )
    flags.DEFINE_float("ranking_beta", 0.2, "--ranking, wnli: the margin.")


def _define_evaluation() -> None:
    flags.DEFINE_string(
        "eval_split", "", "Evaluate this split; default: all dev splits."
    )
    flags.DEFINE_float(
        "dev_fraction",
        0.0,
        "Without a dev file: this share of the training file's rows is the "
        "dev split and is not trained on.",
    )
    flags.DEFINE_integer(
        "dev_seed", 0, "Which rows --dev_fraction takes; not --seed."
    )
    flags.DEFINE_float(
        "label_threshold",
        None,
        "--multi_label: probabilities above it are labels; default: the best "
        "one on dev, where that was evaluated, else 0.5.",
    )


def from_flags(trained: TaskSpec | None = None) -> ClassifierDataOptions:
    """The task; call `finetune_flags.from_flags` for the rest.

    Args:
      trained: the model's task.json; its head counts where none is asked for.
    """
    if FLAGS.is_regression and FLAGS.multi_label:
        raise UserError("give one of --is_regression and --multi_label")
    head = "regression" if FLAGS.is_regression else "classification"
    head = "multi_label" if FLAGS.multi_label else head
    asked = FLAGS["is_regression"].present or FLAGS["multi_label"].present
    if trained and not asked and trained.head in CLASSIFIER_HEADS:
        head = trained.head
    return flag_values.build(ClassifierDataOptions, head=head)
