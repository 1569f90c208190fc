"""Options of language-model data: how text becomes streams, what is read (L0)."""

import dataclasses

from common.checks import FIELD, one_of, require, within
from data.records.options import check_factory

SPLITS = ("train", "valid", "test")
DATASETS = (
    "text",
    "wikitext-103",
    "wikitext-2",
    "ptb",
    "enwik8",
    "text8",
    "lm1b",
)
VOCAB_SOURCES = ("train", "all", "fixed")
PROTOCOLS = ("lanes", "anchor", "sliding")
ORDERS = ("ordered", "shuffled")
INSPECT_MODES = ("check", "record", "statistics")


@dataclasses.dataclass(frozen=True)
class DatasetDefaults:
    """How the original reads a data set."""

    unit: str = "word"
    line_end: str = "eos"
    lower_case: bool = False
    vocab_from: str = "train"


# Golden table of the original's settings; `text` is any text.
DEFAULTS = {
    "text": DatasetDefaults(),
    "wikitext-103": DatasetDefaults(),
    "wikitext-2": DatasetDefaults(vocab_from="all"),
    "ptb": DatasetDefaults(lower_case=True, vocab_from="all"),
    "enwik8": DatasetDefaults("byte", "none", vocab_from="all"),
    "text8": DatasetDefaults("char", "none", vocab_from="all"),
    "lm1b": DatasetDefaults(line_end="marks"),
}
_LINE_END = {
    "word": "eos",
    "piece": "eos",
    "char": "newline",
    "byte": "newline",
}


@dataclasses.dataclass(frozen=True)
class LMDataOptions:
    """How text becomes token streams. What is None is the data set's own.

    Attributes:
      output_dir: receives the records, `manifest.json` and the vocabulary.
      dataset: one of `DATASETS`.
      data_path: folder (enwik8, text8: or file) of an official data set.
      train_glob, valid_glob, test_glob: files of dataset "text".
      unit: "word", "char", "byte" or "piece".
      line_end: what a line's end becomes (`data.text.units`).
      lower_case: lower-case words and characters.
      vocab_file: a vocabulary to use: ours (.json), a SentencePiece file
        (.model) or a plain list of words; empty = it is counted.
      vocab_from: splits it is counted from; "fixed" = all 256 bytes.
      unknown: "unk": what is not in the vocabulary becomes `<unk>`; "error".
      min_count: symbols that occur less often are left out.
      max_symbols: symbols that are kept, special ones apart; 0 = all.
      held_out_size: bytes (characters) of enwik8's (text8's) valid and test.
      record_tokens: tokens of a record.
      text_field, block_megabytes, seed, num_workers, runner, beam_options: as
        in the pretraining builder.
    """

    output_dir: str
    dataset: str = "text"
    data_path: str = ""
    train_glob: str = ""
    valid_glob: str = ""
    test_glob: str = ""
    unit: str | None = None
    line_end: str | None = None
    lower_case: bool | None = None
    vocab_file: str = ""
    vocab_from: str | None = None
    unknown: str = "unk"
    min_count: int = 0
    max_symbols: int = 0
    held_out_size: int = 5_000_000
    record_tokens: int = 1024
    text_field: str = "text"
    block_megabytes: float = 8.0
    seed: int = 0
    num_workers: int = 1
    runner: str = "local"
    beam_options: str = ""

    def __post_init__(self) -> None:
        check_factory(self)
        one_of(self, dataset=DATASETS)
        self._fill()
        one_of(self, vocab_from=VOCAB_SOURCES)
        within(self, ">= 0", "min_count", "max_symbols")
        within(self, ">= 1", "held_out_size")
        require(
            8 <= self.record_tokens <= 1 << 16 and self.record_tokens % 8 == 0,
            "--record_tokens must be a multiple of 8 in 8..65536, received "
            f"{self.record_tokens}",
        )
        self._check_inputs()

    def _fill(self) -> None:
        """What was not said is the data set's own, or the unit's."""
        own = DEFAULTS[self.dataset]
        unit = self.unit
        if unit is None:
            unit = "piece" if self.vocab_file.endswith(".model") else own.unit
        same = unit == own.unit
        filled = {
            "unit": unit,
            "line_end": own.line_end if same else _LINE_END.get(unit, "eos"),
            "lower_case": own.lower_case and same,
            "vocab_from": "fixed"
            if unit == "byte" and not same
            else own.vocab_from,
        }
        for name, value in filled.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)

    def _check_inputs(self) -> None:
        globs = (self.train_glob, self.valid_glob, self.test_glob)
        if self.dataset == "text":
            require(
                bool(self.train_glob) and not self.data_path,
                "--dataset=text needs --train_glob, and no --data_path",
            )
        else:
            require(
                bool(self.data_path) and not any(globs),
                f"--dataset={self.dataset} needs --data_path with its official "
                "files, and no --train_glob, --valid_glob, --test_glob",
            )
        require(
            (self.vocab_from != "fixed") or self.unit == "byte",
            "--vocab_from=fixed is for --unit=byte",
        )
        if self.unit == "piece":
            require(
                self.vocab_file.endswith(".model"),
                "--unit=piece needs --vocab_file=NAME.model: make one with "
                "`python -m data.train_sentencepiece`",
            )
        if self.dataset in ("enwik8", "text8"):
            require(
                self.unit in ("byte", "char")
                and (self.dataset == "text8" or self.unit == "byte"),
                f"--dataset={self.dataset} is cut at any byte: give "
                "--unit=byte"
                + (" or char" if self.dataset == "text8" else "")
                + f", received {self.unit}",
            )

    def identity(self) -> dict:
        """What equal data share; paths and how it was run are left out."""
        value = dataclasses.asdict(self)
        for name in (
            "output_dir",
            "data_path",
            "train_glob",
            "valid_glob",
            "test_glob",
            "vocab_file",  # its hash stands apart
            "num_workers",
            "runner",
            "beam_options",
        ):
            del value[name]
        return value


@dataclasses.dataclass(frozen=True)
class StreamReadOptions:
    """Which batches a reader of streams gives.

    Attributes:
      batch_size: B, rows of a batch.
      seq_len: T.
      protocol: "lanes": every token but the first is predicted; "anchor": the
        original's rows, which drop what does not fill them; "sliding": every
        row is a window of T tokens, of which the last `stride` predict.
      order: "ordered", or "shuffled": sentences in an order drawn each epoch.
      count_mark_pairs: False gives the prediction of `<S>` after `<S>` (One
        Billion Word as released) no weight.
      vary_length: training segments of random lengths around T, see
        `data.language_modeling.varied_lengths`; their batches have as many
        columns as the longest of their rows.
      stride: how far the window of protocol "sliding" moves.
      verify: check record checksums and ids.
      read_ahead: steps read at once.
      prefetch: batches kept ready; 0 = none.
      rows: rows of the batch that are read, in this order; None = all.
    """

    batch_size: int
    seq_len: int
    protocol: str = "lanes"
    order: str = "ordered"
    count_mark_pairs: bool = True
    vary_length: bool = False
    stride: int = 1
    verify: bool = True
    read_ahead: int = 16
    prefetch: int = 8
    rows: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        within(
            self,
            ">= 1",
            "batch_size",
            "seq_len",
            "read_ahead",
            "stride",
            form=FIELD,
        )
        within(self, ">= 0", "prefetch", form=FIELD)
        one_of(self, form=FIELD, protocol=PROTOCOLS, order=ORDERS)
        require(
            self.protocol == "lanes"
            or (self.order == "ordered" and self.count_mark_pairs),
            f"protocol={self.protocol} reads the stream in order and counts "
            "every prediction: leave order=shuffled and count_mark_pairs out",
        )
        require(
            self.protocol == "lanes" or not self.vary_length,
            f"protocol={self.protocol} has segments of one length: leave "
            "vary_length out",
        )
        require(
            self.stride <= self.seq_len,
            f"a window of {self.seq_len} tokens cannot move by {self.stride}: "
            "take a smaller stride",
        )
