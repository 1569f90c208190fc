"""Options of the pretraining data builder and reader."""

import dataclasses
import math

from common.checks import FIELD, one_of, require, within
from common.settings import REQUIRED, VOCABULARY, check, setting
from common.vocabularies.text_settings import TextChoice, TextSettings
from data.records.options import RUNNERS, check_factory, identity

SPAN_UNITS = ("word", "token", "single")
SPAN_LENGTHS = ("inverse", "uniform")
SAMPLERS = ("balanced", "original")
SPLITS = ("train", "dev")
MIN_SECOND_PART = 5  # A, SEP, B, SEP, CLS
FUNCTIONAL = 3  # SEP, SEP, CLS


def default_slots(options: "BuildOptions") -> int:
    """P where none is given.

    The "balanced" sampler: the mean of a segment's targets and some slots more.
    Words have several pieces, so the targets vary, the more words a span may
    have the more; with these slots at most 1 % of the targets are lost from 32
    positions on, in English, Chinese and Japanese with 1,000 and 8,000 pieces
    (`python -m studies.target_rates`). The others: floor(T * beta / alpha),
    as in the original.
    """
    mean = options.seq_len * options.mask_beta / options.mask_alpha
    if options.sampler != "balanced":
        return max(1, math.floor(mean))
    more = 3 + options.max_span if options.span_unit == "word" else 1
    return min(math.ceil(mean + more), options.seq_len - FUNCTIONAL)


@dataclasses.dataclass(frozen=True)
class BuildOptions:
    """How text becomes lanes of records. Every field but the last group is
    part of the data's identity and stored in the manifest.

    `text` is what is said about text handling; the vocabulary's record rules.
    """

    input_glob: str = setting(
        REQUIRED,
        "Text or .jsonl files, plain or .gz; commas separate patterns. All "
        "as name=pattern: sources that are counted apart.",
        often=True,
    )
    spiece_model_file: str = setting(
        REQUIRED,
        "SentencePiece model that cuts the text.",
        often=True,
        released=VOCABULARY,
    )
    output_dir: str = setting(
        REQUIRED, "Folder that receives the records.", often=True
    )
    seq_len: int = setting(
        512, "Positions per segment.", bounds="[8, 16384]", often=True
    )
    reuse_len: int = setting(
        256, "Positions of the part that becomes memory; 0 = none.", often=True
    )
    num_predict: int | None = setting(
        None,
        "Target slots per segment; by default enough for 99 % of the targets.",
        often=True,
    )
    perm_size: int = setting(
        0, "Positions that are permuted together; 0 = the whole part."
    )
    bi_data: bool = setting(True, "Write backward lanes, too.", often=True)
    source_weights: str = setting(
        "",
        "How often a source's documents are read: wiki=2,books=0.5; others "
        "once.",
    )
    text: TextChoice | TextSettings | None = None
    mask_alpha: int = setting(6, "Of this many tokens, mask_beta are targets.")
    mask_beta: int = setting(1, "Targets among mask_alpha tokens.")
    span_unit: str = setting(
        "word", "What spans are made of.", choices=SPAN_UNITS
    )
    span_lengths: str = setting(
        "inverse", "Weights of the spans' lengths.", choices=SPAN_LENGTHS
    )
    max_span: int = setting(
        5, "Longest span of targets, in units.", bounds=">= 1"
    )
    sampler: str = setting(
        "balanced",
        "How spans are placed; 'original' is the released code's rule, "
        "exactly.",
        choices=SAMPLERS,
    )
    order_context: bool = setting(
        False, "Give every token a place in the order."
    )
    functional_as_context: bool = setting(
        False, "Give SEP and CLS no place in the order."
    )
    segments_per_lane: int = setting(
        0, "Segments per lane; 0 = by the corpus's size.", bounds=">= 0"
    )
    dev_fraction: float = setting(
        0.0,
        "Share of documents held out as the dev split.",
        bounds="[0, 1)",
        often=True,
    )
    num_passes: int = setting(
        1,
        "Independent draws of targets and orders, all stored.",
        bounds=">= 1",
        often=True,
    )
    seed: int = setting(0, "Seed of everything that is drawn.", often=True)
    block_megabytes: float = setting(
        8.0, "Text per block, the unit of work, in 1e6 bytes."
    )
    min_document_tokens: int = setting(
        0, "Leave out documents with fewer tokens.", bounds=">= 0"
    )
    max_symbol_ratio: float = setting(
        1.0,
        "Leave out documents with a larger share of characters that are no "
        "letters, marks, numbers or white space; 1 = none.",
        bounds="(0, 1]",
    )
    dedup: bool = setting(False, "Leave out documents whose text came before.")
    materialize_masks: bool = setting(
        False, "Write permutation masks and target mappings, too."
    )
    materialize_batches: int = setting(
        0,
        "Also write records in order of batches of this many rows; 0 = no.",
        bounds=">= 0",
    )
    max_empty_share: float = setting(
        0.2,
        "Empty train records, at the ends of lanes, that are no error.",
        bounds="[0, 1]",
    )
    text_field: str = setting(
        "text", "Field of JSONL files that holds the text."
    )
    num_workers: int = setting(
        1, "Processes; any number gives the same bytes.", often=True
    )
    runner: str = setting(
        "local", "Where the blocks are built.", choices=RUNNERS
    )
    beam_options: str = setting(
        "", "Beam's own command line, for --runner=beam."
    )

    def __post_init__(self) -> None:
        check(self)
        self._check_lengths()
        self._check_choices()
        check_factory(self)
        if self.num_predict is None:
            object.__setattr__(self, "num_predict", default_slots(self))
        limit = self.seq_len - FUNCTIONAL
        require(
            1 <= self.num_predict <= limit,
            f"--num_predict must lie in 1..{limit} (--seq_len="
            f"{self.seq_len} less SEP, SEP, CLS), received {self.num_predict}",
        )

    def _check_lengths(self) -> None:
        limit = self.seq_len - MIN_SECOND_PART
        require(
            0 <= self.reuse_len <= limit,
            f"--reuse_len must lie in 0..{limit} (--seq_len={self.seq_len} "
            f"less A, SEP, B, SEP, CLS), received {self.reuse_len}",
        )
        require(
            0 <= self.perm_size <= self.seq_len,
            f"--perm_size must lie in 0 (whole part)..{self.seq_len}, "
            f"received {self.perm_size}",
        )
        require(
            1 <= self.mask_beta < self.mask_alpha,
            "--mask_beta must lie in 1..mask_alpha-1, received "
            f"{self.mask_beta} of --mask_alpha={self.mask_alpha}",
        )

    def _check_choices(self) -> None:
        require(
            not self.bi_data or self.materialize_batches % 2 == 0,
            "--materialize_batches must be even: half of a batch's rows are "
            f"backward, received {self.materialize_batches}; give another "
            "number or --nobi_data",
        )
        if self.sampler == "original":
            size = self.perm_size or self.reuse_len
            parts = (self.reuse_len, self.seq_len - self.reuse_len)
            require(
                not self.order_context and not self.functional_as_context,
                "--sampler=original has its own order: leave out "
                "--order_context and --functional_as_context",
            )
            require(
                size > 0 and all(part % size == 0 for part in parts),
                "--sampler=original needs a --perm_size that divides both "
                f"parts, of {parts[0]} and {parts[1]} positions, received "
                f"{self.perm_size}",
            )

    def identity(self) -> dict:
        """What equal data share; paths and how it was run are left out."""
        apart = ("input_glob", "spiece_model_file", "max_empty_share")
        # `text` and the vocabulary's hash stand beside the options.
        value = identity(self, *apart, "text")
        if not self.source_weights:  # as folders of before
            del value["source_weights"]
        return value


@dataclasses.dataclass(frozen=True)
class ReaderOptions:
    """Which batches a reader gives.

    Attributes:
      global_batch: rows of a batch over all replicas.
      seed: of the lane order (and of what is drawn again).
      start_step: the first batch given is the one of this step.
      repeat: False ends where the first epoch's last lanes end.
      prefetch: batches kept ready; 0 = none.
      rows: rows of the global batch that are read, in this order; None = all.
      reset_memory_at_document: also where a document starts.
      resample_permutation: a fresh order of the stored targets each epoch.
      resample_targets: fresh targets each epoch, too.
    """

    global_batch: int
    seed: int = 0
    start_step: int = 0
    split: str = "train"
    repeat: bool = True
    verify: bool = True
    read_ahead: int = 16
    prefetch: int = 8
    rows: tuple[int, ...] | None = None
    reset_memory_at_document: bool = False
    resample_permutation: bool = False
    resample_targets: bool = False

    def __post_init__(self) -> None:
        within(self, ">= 1", "global_batch", "read_ahead", form=FIELD)
        within(self, ">= 0", "seed", "start_step", "prefetch", form=FIELD)
        one_of(self, form=FIELD, split=SPLITS)


INSPECT_MODES = ("record", "check", "statistics")
INSPECT_SPLITS = (*SPLITS, "valid", "test")  # streams have the last two


@dataclasses.dataclass(frozen=True)
class InspectOptions:
    """What to show of a data directory."""

    data_dir: str = setting(REQUIRED, "Folder with the builder's output.")
    mode: str = setting(
        "check", "What to do with the data.", choices=INSPECT_MODES
    )
    split: str = setting(
        "train", "Split whose records are shown.", choices=INSPECT_SPLITS
    )
    direction: str = setting(
        "forward",
        "Direction whose records are shown.",
        choices=("forward", "backward"),
    )
    pass_number: int = setting(0, "Stored pass to show.", bounds=">= 0")
    lane: int = setting(0, "Lane to show.", bounds=">= 0")
    segment: int = setting(0, "Segment to show.", bounds=">= 0")
    record_number: int = setting(
        0, "Record of a token stream to show.", bounds=">= 0"
    )
    spiece_model_file: str = setting(
        "",
        "SentencePiece model of the data; default: the copy in --data_dir.",
        released=VOCABULARY,
    )
    mask_size: int = setting(
        32, "Rows and columns of the mask to print.", bounds=">= 0"
    )
    max_records: int = setting(
        100000, "Records that the statistics read; 0 = all.", bounds=">= 0"
    )

    def __post_init__(self) -> None:
        check(self)
