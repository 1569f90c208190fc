"""Options of the pretraining data builder and reader (L0)."""

import dataclasses
import math

from common.checks import FIELD, one_of, require, within
from common.text_settings import TextChoice, TextSettings
from data.records.options import LaneOptions, check_factory

SPAN_UNITS = ("word", "token", "single")
SPAN_LENGTHS = ("inverse", "uniform")
SAMPLERS = ("balanced", "context", "original")
SPLITS = ("train", "dev")
TARGET_ORDERS = ("random", "none", "forward")  # of a run; see target_orders.py
MIN_SECOND_PART = 5  # A, SEP, B, SEP, CLS
FUNCTIONAL = 3  # SEP, SEP, CLS


def default_slots(options: "BuildOptions") -> int:
    """P where none is given.

    The "balanced" sampler: the mean of a segment's targets and some slots more.
    Words have several pieces, so the targets vary, the more words a span may
    have the more; with these slots at most 1 % of the targets are lost from 32
    positions on, in English, Chinese and Japanese with 1,000 and 8,000 pieces
    (`python -m benchmarks.target_rates`). The others: floor(T * beta / alpha),
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

    Attributes:
      input_glob: text (one sentence per line, an empty line ends a document)
        or .jsonl files, each also as .gz; commas separate several patterns,
        `name=pattern` makes sources that are counted apart.
      spiece_model_file: SentencePiece model.
      output_dir: receives the records and `manifest.json`.
      seq_len: T, positions per segment.
      reuse_len: positions of the part that becomes memory; 0 = none.
      num_predict: P, capacity of targets; None = `default_slots`.
      perm_size: positions per permutation; 0 = the whole part.
      bi_data: write backward lanes, too.
      source_weights: `name=number`, with commas: how often the documents of
        a source are read.
      text: what is said about text handling; the vocabulary's record rules.
      mask_alpha, mask_beta: beta of alpha tokens are targets.
      span_unit: "word", "token" or "single" (one token, for the ablation).
      span_lengths: "inverse" (weights 1/n) or "uniform" over 1..max_span.
      max_span: longest span, in units.
      sampler: "balanced": every word has the same chance, the targets of a
        segment vary little; "context": contexts in pieces, cut into parts that
        each have a share of P (the rule of format 1); "original": the
        released code's exact rule.
      order_context: give every token a place in the order (paper, Figure 3).
      functional_as_context: SEP and CLS get no place in the order.
      segments_per_lane: S; 0 = chosen from the corpus's size.
      dev_fraction: share of documents held out as the dev split.
      num_passes: independent draws of targets, orders and B, all stored.
      seed: of everything drawn.
      block_megabytes: text per block, the unit of work.
      min_document_tokens: shorter documents are left out.
      max_symbol_ratio: documents with a larger share of symbols (characters
        that are no letters, marks, numbers or white space) are left out.
      dedup: leave out documents whose text came before.
      materialize_masks: write permutation masks and target mappings, too.
      materialize_batches: also write train records in the order of batches of
        so many rows; 0 = no.
      max_empty_share: of the train split's records, at most; more is an error.
      text_field: of JSONL files.
      num_workers: processes; any number gives the same bytes.
      runner: "local" or "beam".
      beam_options: Beam's own command line.
    """

    input_glob: str
    spiece_model_file: str
    output_dir: str
    seq_len: int = 512
    reuse_len: int = 256
    num_predict: int | None = None
    perm_size: int = 0
    bi_data: bool = True
    source_weights: str = ""
    text: TextChoice | TextSettings | None = None
    mask_alpha: int = 6
    mask_beta: int = 1
    span_unit: str = "word"
    span_lengths: str = "inverse"
    max_span: int = 5
    sampler: str = "balanced"
    order_context: bool = False
    functional_as_context: bool = False
    segments_per_lane: int = 0
    dev_fraction: float = 0.0
    num_passes: int = 1
    seed: int = 0
    block_megabytes: float = 8.0
    min_document_tokens: int = 0
    max_symbol_ratio: float = 1.0
    dedup: bool = False
    materialize_masks: bool = False
    materialize_batches: int = 0
    max_empty_share: float = 0.2
    text_field: str = "text"
    num_workers: int = 1
    runner: str = "local"
    beam_options: str = ""

    def __post_init__(self) -> None:
        self._check_lengths()
        self._check_choices()
        self._check_ranges()
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
        within(self, "[8, 16384]", "seq_len")
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
        one_of(
            self,
            span_unit=SPAN_UNITS,
            span_lengths=SPAN_LENGTHS,
            sampler=SAMPLERS,
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

    def _check_ranges(self) -> None:
        within(self, ">= 1", "max_span", "num_passes")
        within(
            self,
            ">= 0",
            "segments_per_lane",
            "min_document_tokens",
            "materialize_batches",
        )
        within(self, "[0, 1)", "dev_fraction")
        within(self, "(0, 1]", "max_symbol_ratio")
        within(self, "[0, 1]", "max_empty_share")

    def identity(self) -> dict:
        """What equal data share; paths and how it was run are left out."""
        value = dataclasses.asdict(self)
        for name in (
            "input_glob",
            "spiece_model_file",
            "output_dir",
            "max_empty_share",
            "num_workers",
            "runner",
            "beam_options",
            "text",  # stands apart, as the vocabulary's hash
        ):
            del value[name]
        if not self.source_weights:  # as folders of before
            del value["source_weights"]
        return value


@dataclasses.dataclass(frozen=True)
class ReaderOptions(LaneOptions):
    """Which batches a reader gives.

    Attributes:
      reset_memory_at_document: also where a document starts.
      resample_permutation: a fresh order of the stored targets each epoch.
      resample_targets: fresh targets each epoch, too.
    """

    reset_memory_at_document: bool = False
    resample_permutation: bool = False
    resample_targets: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self, form=FIELD, split=SPLITS)


INSPECT_MODES = ("record", "check", "statistics")
INSPECT_SPLITS = (*SPLITS, "valid", "test")  # streams have the last two


@dataclasses.dataclass(frozen=True)
class InspectOptions:
    """What to show of a data directory.

    Attributes:
      data_dir: the builder's output.
      mode: "record", "check" or "statistics".
      split: one of `INSPECT_SPLITS`.
      direction: "forward" or "backward".
      pass_number: of the stored passes.
      lane, segment: which record.
      record_number: which record of a token stream.
      spiece_model_file: prints pieces; empty = the folder's copy.
      mask_size: positions of the printed mask's rows and columns, at most.
      max_records: records that statistics read; 0 = all.
      plot_file: PNG of the statistics; empty = none.
    """

    data_dir: str
    mode: str = "check"
    split: str = "train"
    direction: str = "forward"
    pass_number: int = 0
    lane: int = 0
    segment: int = 0
    record_number: int = 0
    spiece_model_file: str = ""
    mask_size: int = 32
    max_records: int = 100_000
    plot_file: str = ""

    def __post_init__(self) -> None:
        one_of(self, mode=INSPECT_MODES, split=INSPECT_SPLITS)
        within(
            self,
            ">= 0",
            "lane",
            "segment",
            "record_number",
            "pass_number",
            "mask_size",
        )
