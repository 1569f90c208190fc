"""Options of the fine-tuning tasks: files, features, cache (L0)."""

import dataclasses

from common.checks import FIELD, distinct, one_of, require, weights, within
from common.errors import UserError
from common.text_settings import TextChoice, TextSettings
from data.symbols import CLS_LAST, LAYOUTS

RANKED = ("qnli", "wnli")  # what `--ranking` is for
CLASSIFIER_HEADS = ("classification", "regression", "multi_label")


@dataclasses.dataclass(frozen=True)
class FeatureOptions:
    """What every task needs to turn text into features.

    Attributes:
      spiece_model_file: the vocabulary.
      max_seq_length: T.
      text: what is said about text handling; the vocabulary's record rules.
      skip_bad_rows: leave bad rows out, count and report them.
      num_workers: processes that tokenize; 0 = one per core, 1 = none extra.
      cache_dir: features are kept here under a hash of their content; empty =
        not kept.
      length_buckets: "" (always T), "auto" or rising lengths "64,128".
      segment_recurrence: read documents of more than T tokens in segments that
        carry memory; at most so many segments; 0 = off.
      static_shapes: all batches have one shape (TPU); length buckets are then
        cut out of it by the step.
      layout: one of `data.symbols.LAYOUTS`, the encoder's.
    """

    spiece_model_file: str
    max_seq_length: int = 128
    text: TextChoice | TextSettings | None = None
    skip_bad_rows: bool = False
    num_workers: int = 1
    cache_dir: str = ""
    length_buckets: str = ""
    segment_recurrence: int = 0
    static_shapes: bool = False
    layout: str = CLS_LAST

    def __post_init__(self) -> None:
        one_of(self, form=FIELD, layout=LAYOUTS)
        within(self, ">= 4", "max_seq_length")
        within(self, ">= 0", "num_workers", "segment_recurrence")
        if self.segment_recurrence and self.length_buckets:
            raise UserError(
                "--segment_recurrence reads segments of one length: leave out "
                "--length_buckets"
            )

    @property
    def row_length(self) -> int:
        """Tokens of a whole row: T, or all its segments."""
        return self.max_seq_length * max(1, self.segment_recurrence)


@dataclasses.dataclass(frozen=True)
class ClassifierDataOptions:
    """A classification or regression task.

    Attributes:
      task_name: see `data.finetuning.classifier.tasks.task_names()`.
      data_dir: the task's files.
      head: one of `CLASSIFIER_HEADS`; only for generic tables.
      text_columns, label_column, has_header, label_separator,
        allow_empty_text: see `data.finetuning.classifier.sources.TableOptions`.
      labels: class names in order of the logits; empty = the task's own, or
        the sorted ones of the training file.
      eval_split: the split to evaluate; empty = every dev split.
      dev_fraction: without a dev file, the share of the training file's rows
        that is held out as dev; 0 = none.
      dev_seed: which rows.
      label_threshold: of several labels, probabilities above it are labels;
        None = the best one on dev, where that was evaluated, else 0.5.
      ranking: candidates compete; for `RANKED` tasks.
      ranking_alpha, ranking_beta: see
        `training.objectives.candidates.CandidateObjective`.
    """

    task_name: str
    data_dir: str
    head: str = "classification"
    text_columns: tuple[str, ...] = ()
    label_column: str = ""
    has_header: bool = True
    label_separator: str = "|"
    allow_empty_text: bool = False
    labels: tuple[str, ...] = ()
    eval_split: str = ""
    dev_fraction: float = 0.0
    dev_seed: int = 0
    label_threshold: float | None = None
    ranking: bool = False
    ranking_alpha: float = 5.0
    ranking_beta: float = 0.2

    def __post_init__(self) -> None:
        within(self, "(0, 1)", "label_threshold")
        within(self, ">= 0", "ranking_alpha", "ranking_beta")
        if self.ranking and self.task_name.lower() not in RANKED:
            raise UserError(
                f"--ranking is for {' and '.join(RANKED)}, received "
                f"--task_name={self.task_name}"
            )
        within(self, "[0, 1)", "dev_fraction")
        one_of(self, head=CLASSIFIER_HEADS)
        distinct(self, "labels", "a class")
        if self.head == "multi_label" and not self.label_separator:
            raise UserError("--label_separator must not be empty")


@dataclasses.dataclass(frozen=True)
class SquadDataOptions:
    """SQuAD files and how windows and answers are made.

    Attributes:
      train_file, predict_file: SQuAD 1.1 or 2.0 JSON; empty where not needed.
        Several training files have commas between them.
      train_weights: how often a window of each training file is drawn,
        relatively; empty = all alike.
      max_query_length: longest question in tokens.
      doc_stride: tokens between the starts of two windows of a paragraph.
      n_best_size, max_answer_length: see `AnswerOptions`.
      start_n_top, end_n_top: beams.
      null_score_diff_threshold: null odds above it give "" in predictions;
        None = the best text always, as the original writes.
      original_last_token_bug: the last paragraph token of a window is never
        in an answer (parity with the original).
    """

    train_file: str = ""
    predict_file: str = ""
    train_weights: tuple[float, ...] = ()
    max_query_length: int = 64
    doc_stride: int = 128
    n_best_size: int = 5
    max_answer_length: int = 64
    start_n_top: int = 5
    end_n_top: int = 5
    null_score_diff_threshold: float | None = None
    original_last_token_bug: bool = False

    def __post_init__(self) -> None:
        weights(self, "train_weights", len(self.train_files), "training file")
        within(
            self,
            ">= 1",
            "max_query_length",
            "doc_stride",
            "n_best_size",
            "max_answer_length",
            "start_n_top",
            "end_n_top",
        )

    @property
    def train_files(self) -> list[str]:
        """The training files, in order."""
        return [path for path in self.train_file.split(",") if path]


def require_paragraph_room(max_seq_length: int, max_query_length: int) -> None:
    """Raises UserError where the longest question fills a window alone."""
    # Beside both there are two <sep> and a <cls>.
    if max_seq_length - max_query_length - 3 < 1:
        raise UserError(
            f"a window of {max_seq_length} tokens (max_seq_length) leaves no "
            f"room for the paragraph beside a question of {max_query_length} "
            "(max_query_length) and 3 special tokens: make windows longer or "
            "questions shorter"
        )


@dataclasses.dataclass(frozen=True)
class RaceDataOptions:
    """RACE folders.

    Attributes:
      data_dir: holds `train`, `dev`, `test` with `middle` and `high`.
      max_qa_length: tokens kept (the last ones) of question + option.
      high_only, middle_only: use one level.
      eval_split: the split to evaluate.
      accumulate_options: the original's aliasing bug, for parity.
    """

    data_dir: str
    max_qa_length: int = 128
    high_only: bool = False
    middle_only: bool = False
    eval_split: str = "dev"
    accumulate_options: bool = False

    def __post_init__(self) -> None:
        within(self, ">= 1", "max_qa_length")
        require(
            not (self.high_only and self.middle_only),
            "give one of --high_only and --middle_only",
        )


@dataclasses.dataclass(frozen=True)
class TaggingDataOptions:
    """Tagged text.

    Attributes:
      data_dir: a folder with train, dev and test files by the names of
        `data.finetuning.tagging.examples.SPLIT_NAMES`.
      train_file, eval_file, predict_file: files that are named instead.
      text_column, tag_column, token_separator: see
        `data.finetuning.tagging.examples.ColumnOptions`.
      labels: tags in the order of the logits; empty = those of the training
        file.
      doc_stride: pieces between the starts of two windows of a long text.
    """

    data_dir: str = ""
    train_file: str = ""
    eval_file: str = ""
    predict_file: str = ""
    text_column: int = 0
    tag_column: int = -1
    token_separator: str = "auto"
    labels: tuple[str, ...] = ()
    doc_stride: int = 64

    def __post_init__(self) -> None:
        within(self, ">= 1", "doc_stride")
        distinct(self, "labels", "a tag")
        if self.text_column == self.tag_column:
            raise UserError(
                "--text_column and --tag_column must differ, received "
                f"{self.text_column} for both"
            )
