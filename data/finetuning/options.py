"""Options of the fine-tuning tasks: files, features, cache."""

import dataclasses

from common.checks import FIELD, distinct, one_of, require, weights
from common.contract.symbols import CLS_LAST, LAYOUTS, row_symbols
from common.errors import UserError
from common.heads import CLASSIFIERS
from common.settings import (
    DATA,
    HEAD,
    REQUIRED,
    VOCABULARY,
    Kept,
    check,
    setting,
)
from common.vocabularies.text_settings import TextChoice, TextSettings

RANKED = ("qnli", "wnli")  # what `--ranking` is for
TABLES = ("tsv", "csv", "jsonl")  # any set, in files of this form
TFDS_PREFIX = "tfds:"
# Other names of tasks, in lower case -> those of `classifier.sets`.
ALIASES = {
    "sst2": "sst-2",
    "stsb": "sts-b",
    "sts": "sts-b",
    "yelp2": "yelp-2",
    "yelp5": "yelp-5",
    "ag_news": "ag",
    "ag-news": "ag",
    "amazon2": "amazon-2",
    "amazon5": "amazon-5",
    "trec-coarse": "trec",
}


@dataclasses.dataclass(frozen=True)
class FeatureOptions:
    """What every task needs to turn text into features.

    Attributes:
      text: what is said about text handling; the vocabulary's record rules.
      static_shapes: all batches have one shape (TPU); length buckets are then
        cut out of it by the step.
    """

    spiece_model_file: str = setting(
        REQUIRED,
        "Vocabulary (spiece.model, tokenizer.json, ...); default: the copy in "
        "--model_dir or beside --init_checkpoint.",
        often=True,
        released=VOCABULARY,
    )
    max_seq_length: int = setting(
        128,
        "Longest input in tokens.",
        bounds=">= 4",
        often=True,
        kept=Kept("", False),
    )
    text: TextChoice | TextSettings | None = None
    skip_bad_rows: bool = setting(
        False,
        "Leave rows that cannot be used out, and count them, instead of "
        "stopping at the first one.",
    )
    num_workers: int = setting(
        1,
        "Processes that make features; 0 = one per core.",
        bounds=">= 0",
        flag="num_proc",
    )
    cache_dir: str = setting(
        "",
        "Keep features here under a hash of data, vocabulary and options; "
        "empty = do not keep them.",
        flag="output_dir",
    )
    length_buckets: str = setting(
        "",
        'Shorter batches for shorter texts: rising lengths such as "64,128"'
        ' or "auto"; empty = always --max_seq_length.',
    )
    segment_recurrence: int = setting(
        0,
        "Read texts longer than --max_seq_length in up to this many segments "
        "that carry memory; 0 = cut them.",
        bounds=">= 0",
        kept=Kept(DATA, True, 0),
    )
    static_shapes: bool = False
    layout: str = CLS_LAST

    def __post_init__(self) -> None:
        check(self)
        one_of(self, form=FIELD, layout=LAYOUTS)
        if self.segment_recurrence and self.length_buckets:
            raise UserError(
                "--segment_recurrence reads segments of one length: leave out "
                "--length_buckets"
            )

    @property
    def row_length(self) -> int:
        """Tokens of a whole row: T, or all its segments."""
        return self.max_seq_length * max(1, self.segment_recurrence)


class DataOptions:
    """Base of the kinds' own options."""

    def check_run(self, options, features) -> None:
        """Checks them beside `FinetuneOptions` and `FeatureOptions`."""


@dataclasses.dataclass(frozen=True)
class ClassifierDataOptions(DataOptions):
    """A classification or regression task.

    Attributes:
      head: one of `common.heads.CLASSIFIERS`; only for generic tables.
    """

    task_name: str = setting(
        REQUIRED,
        "mnli, qnli, qqp, rte, sst-2, mrpc, cola, sts-b, wnli, imdb, "
        "yelp-2, yelp-5, dbpedia, ag, amazon-2, amazon-5, trec, trec-fine, "
        "tsv, csv, jsonl or tfds:NAME; any case. Default: that of the trained model.",
        often=True,
    )
    data_dir: str = setting(
        REQUIRED,
        "Folder of the task's files: the official ones, or train.csv, dev.csv "
        "(.tsv, .jsonl).",
        often=True,
    )
    head: str = "classification"
    text_columns: tuple[str, ...] = setting(
        (),
        "tsv, csv, jsonl: the columns of text in order, up to 32; default: "
        "those named text, sentence1, question, ...",
        often=True,
        kept=Kept(DATA, False),
    )
    label_column: str = setting(
        "",
        "tsv, csv, jsonl: the column of the label.",
        often=True,
        kept=Kept(DATA, False),
    )
    has_header: bool = setting(
        True,
        "tsv, csv: the first row names the columns; else they are numbered "
        "from 0.",
        kept=Kept(DATA, False),
    )
    label_separator: str = setting(
        "|",
        "Between the labels of a multi-label row.",
        kept=Kept(DATA, False, "|"),
    )
    allow_empty_text: bool = setting(
        False,
        "An empty text is data and not a bad row.",
        kept=Kept(DATA, False),
    )
    labels: tuple[str, ...] = setting(
        (),
        "tsv, csv, jsonl: class names in order; default: those of the "
        "training file, sorted.",
        kept=Kept("", True),
    )
    eval_split: str = setting(
        "", "Evaluate this split; default: all dev splits."
    )
    dev_fraction: float = setting(
        0.0,
        "Without a dev file: this share of the training file's rows is the "
        "dev split and is not trained on.",
        bounds="[0, 1)",
        kept=Kept(DATA, True, 0.0),
    )
    dev_seed: int = setting(
        0,
        "Which rows --dev_fraction takes; not --seed.",
        kept=Kept(DATA, True, 0),
    )
    label_threshold: float | None = setting(
        None,
        "--multi_label: probabilities above it are labels; default: the "
        "best one on dev, where that was evaluated, else 0.5.",
        bounds="(0, 1)",
    )
    ranking: bool = setting(
        False,
        "qnli, wnli: candidates compete, those of a question in pairs and "
        "those for a pronoun by their probabilities, as in the XLNet paper;"
        " see docs/guides/tasks/classification.md.",
        kept=Kept(DATA, True, False),
    )
    ranking_alpha: float = setting(
        5.0, "--ranking, wnli: weight of the margin's loss.", bounds=">= 0"
    )
    ranking_beta: float = setting(
        0.2, "--ranking, wnli: the margin.", bounds=">= 0"
    )

    def __post_init__(self) -> None:
        check(self)
        if self.ranking and self.task_name.lower() not in RANKED:
            raise UserError(
                f"--ranking is for {' and '.join(RANKED)}, received "
                f"--task_name={self.task_name}"
            )
        one_of(self, head=CLASSIFIERS)
        distinct(self, "labels", "a class")
        if self.head == "multi_label" and not self.label_separator:
            raise UserError("--label_separator must not be empty")


@dataclasses.dataclass(frozen=True)
class SquadDataOptions(DataOptions):
    """SQuAD files and how windows and answers are made."""

    train_file: str = setting(
        "",
        "SQuAD 1.1 or 2.0 JSON to train on; several with commas.",
        often=True,
    )
    predict_file: str = setting(
        "", "SQuAD JSON to evaluate and predict.", often=True
    )
    train_weights: tuple[float, ...] = setting(
        (),
        "How often a window of each training file is drawn, relatively; "
        "default: all alike.",
    )
    max_query_length: int = setting(
        64,
        "Longest question in tokens; the rest is cut.",
        bounds=">= 1",
        kept=Kept(DATA, False, 64),
    )
    doc_stride: int = setting(
        128,
        "Tokens between the starts of two windows of a paragraph.",
        bounds=">= 1",
        kept=Kept(DATA, False, 128),
    )
    n_best_size: int = setting(
        5,
        "Answers kept per question.",
        bounds=">= 1",
        kept=Kept(DATA, False, 5),
    )
    max_answer_length: int = setting(
        64,
        "Longest answer in tokens.",
        bounds=">= 1",
        kept=Kept(DATA, False, 64),
    )
    start_n_top: int = setting(
        5,
        "Starts that the beam keeps.",
        bounds=">= 1",
        kept=Kept(HEAD, False, 5),
    )
    end_n_top: int = setting(
        5,
        "Ends that the beam keeps per start.",
        bounds=">= 1",
        kept=Kept(HEAD, False, 5),
    )
    null_score_diff_threshold: float | None = setting(
        None,
        "SQuAD 2.0: null odds above it make a prediction empty; default: the "
        "best one on dev, where that was evaluated, else never.",
    )
    original_last_token_bug: bool = setting(
        False,
        "Never answer with the last paragraph token of a window, as the "
        "original does.",
        kept=Kept(DATA, False, False),
    )

    def __post_init__(self) -> None:
        check(self)
        weights(self, "train_weights", len(self.train_files), "training file")

    @property
    def train_files(self) -> list[str]:
        """The training files, in order."""
        return [path for path in self.train_file.split(",") if path]


def require_paragraph_room(
    max_seq_length: int, max_query_length: int, layout: str = CLS_LAST
) -> None:
    """Raises UserError where the longest question fills a window alone."""
    beside = row_symbols(layout)
    if max_seq_length - max_query_length - beside < 1:
        raise UserError(
            f"a window of {max_seq_length} tokens (max_seq_length) leaves no "
            f"room for the paragraph beside a question of {max_query_length} "
            f"(max_query_length) and {beside} special tokens: make windows "
            "longer or questions shorter"
        )


@dataclasses.dataclass(frozen=True)
class RaceDataOptions(DataOptions):
    """RACE folders."""

    data_dir: str = setting(
        REQUIRED, "The RACE folder: train, dev, test.", often=True
    )
    max_qa_length: int = setting(
        128,
        "Tokens kept, the last ones, of question and option.",
        bounds=">= 1",
        kept=Kept(DATA, False, 128),
    )
    high_only: bool = setting(False, "Only the high level.")
    middle_only: bool = setting(False, "Only the middle level.")
    eval_split: str = setting("dev", "Split to evaluate.")
    accumulate_options: bool = setting(
        False,
        "Let each option see the options before it, as the original does.",
        kept=Kept(DATA, True, False),
    )

    def __post_init__(self) -> None:
        check(self)
        require(
            not (self.high_only and self.middle_only),
            "give one of --high_only and --middle_only",
        )

    def check_run(self, options, features) -> None:
        """Texts that are read are in a folder."""
        reads = options.do_train or options.do_eval or options.do_predict
        if reads and not self.data_dir:
            raise UserError("--data_dir must be given: the RACE folder")


@dataclasses.dataclass(frozen=True)
class TaggingDataOptions(DataOptions):
    """Tagged text."""

    data_dir: str = setting(
        "",
        "Folder with train, dev and test files: NAME.conll, .txt, .tsv, "
        ".bio (a token and its tag per line) or NAME.jsonl (text and "
        "spans).",
        often=True,
    )
    train_file: str = setting("", "File to train on.", often=True)
    eval_file: str = setting("", "Labelled file to evaluate.", often=True)
    predict_file: str = setting("", "File to predict.", often=True)
    text_column: int = setting(
        0, "Column of the token, from 0.", kept=Kept(DATA, False, 0)
    )
    tag_column: int = setting(
        -1, "Column of the tag; -1 = the last.", kept=Kept(DATA, False, -1)
    )
    token_separator: str = setting(
        "auto",
        "What stands between tokens in the text; auto = a blank, but not "
        "between characters of scripts that are written without.",
        kept=Kept(DATA, False, "auto"),
    )
    labels: tuple[str, ...] = setting(
        (),
        "Tags in the order of the logits; default: those of the training file.",
        kept=Kept("", True),
    )
    doc_stride: int = setting(
        64,
        "Pieces between the starts of two windows of a long text.",
        bounds=">= 1",
        kept=Kept(DATA, False, 128),
    )

    def __post_init__(self) -> None:
        check(self)
        distinct(self, "labels", "a tag")
        if self.text_column == self.tag_column:
            raise UserError(
                "--text_column and --tag_column must differ, received "
                f"{self.text_column} for both"
            )

    def check_run(self, options, features) -> None:
        """Texts that are read are in a file, and are not cut in segments."""
        named = self.train_file or self.eval_file or self.predict_file
        if not (self.data_dir or named or options.do_export):
            raise UserError(
                "give --data_dir, or --train_file, --eval_file, --predict_file"
            )
        if features.segment_recurrence:
            raise UserError(
                "--segment_recurrence: run_tagger.py cuts long texts into "
                "windows (--doc_stride); leave it out"
            )
