"""Options of language-model data: how text becomes streams, what is read."""

import dataclasses

from common.checks import FIELD, one_of, require, within
from common.settings import REQUIRED, check, setting
from data.records.options import RUNNERS, check_factory, identity
from training.jobs.causal_lm_options import ORDERS, PROTOCOLS

SPLITS = ("train", "valid", "test")
VOCAB_SOURCES = ("train", "all", "fixed")
# Data sets of one file, whose splits are cut at any byte.
ONE_FILE = ("enwik8", "text8")


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
    """How text becomes token streams. What is None is the data set's own."""

    output_dir: str = setting(REQUIRED, "Folder that receives the records.")
    dataset: str = setting(
        "text",
        "Official data set, read as the original reads it, or any text.",
        choices=tuple(DEFAULTS),
    )
    data_path: str = setting(
        "", "Folder of the official data set; enwik8 and text8: or the file."
    )
    train_glob: str = setting(
        "",
        "Text or .jsonl files of the train split, for --dataset=text; "
        "commas separate patterns.",
    )
    valid_glob: str = setting(
        "",
        "Text or .jsonl files of the valid split, for --dataset=text; "
        "commas separate patterns.",
    )
    test_glob: str = setting(
        "",
        "Text or .jsonl files of the test split, for --dataset=text; commas"
        " separate patterns.",
    )
    unit: str | None = setting(
        None,
        "What a token is; default: the data set's own, word for any text.",
        choices=("word", "char", "byte", "piece"),
    )
    line_end: str | None = setting(
        None,
        "What a line's end becomes: <eos>, <S> around lines (marks) or "
        "between them (mark), a newline symbol, nothing; default: the data "
        "set's own.",
        choices=("eos", "marks", "mark", "newline", "none"),
    )
    lower_case: bool | None = setting(
        None, "Lower-case words and characters; default: the data set's own."
    )
    vocab_file: str = setting(
        "",
        "Vocabulary to use: vocabulary.json, a SentencePiece .model or a "
        "list of words; default: it is counted.",
    )
    vocab_from: str | None = setting(
        None,
        "Splits that the vocabulary is counted from; fixed = all 256 bytes.",
        choices=VOCAB_SOURCES,
    )
    unknown: str = setting(
        "unk",
        "What is not in the vocabulary becomes <unk>, or is an error.",
        choices=("unk", "error"),
    )
    min_count: int = setting(
        0,
        "Leave symbols out of the vocabulary that occur less often.",
        bounds=">= 0",
    )
    max_symbols: int = setting(
        0,
        "Most frequent symbols that the vocabulary keeps; 0 = all.",
        bounds=">= 0",
    )
    held_out_size: int = setting(
        5000000,
        "Bytes of the valid and of the test split of enwik8 and text8.",
        bounds=">= 1",
    )
    record_tokens: int = setting(1024, "Tokens of a record.")
    text_field: str = setting(
        "text", "Field of JSONL files that holds the text."
    )
    block_megabytes: float = setting(
        8.0, "Text per block, the unit of work, in 1e6 bytes."
    )
    seed: int = 0
    num_workers: int = setting(1, "Processes; any number gives the same bytes.")
    runner: str = setting(
        "local", "Where the blocks are built.", choices=RUNNERS
    )
    beam_options: str = setting(
        "", "Beam's own command line, for --runner=beam."
    )

    def __post_init__(self) -> None:
        check(self)
        check_factory(self)
        self._check_counting()
        self._fill()
        require(
            8 <= self.record_tokens <= 1 << 16 and self.record_tokens % 8 == 0,
            "--record_tokens must be a multiple of 8 in 8..65536, received "
            f"{self.record_tokens}",
        )
        self._check_inputs()

    def _check_counting(self) -> None:
        """Refuses what says how a vocabulary is counted where none is."""
        is_byte = (self.unit or DEFAULTS[self.dataset].unit) == "byte"
        given = self.vocab_file or (
            "the vocabulary of lm1b"
            if self.dataset == "lm1b" and self.unit in (None, "word")
            else ""
        )
        limits = {"min_count": self.min_count, "max_symbols": self.max_symbols}
        said = [name for name, value in limits.items() if value]
        require(
            not (said and is_byte and not given),
            f"--{''.join(said[:1])} is not for --unit=byte: bytes that were left "
            "out could not be said, there is no <unk>; leave it out",
        )
        said += ["vocab_from"] * (self.vocab_from is not None)
        require(
            not (said and given),
            f"--{''.join(said[:1])} says how a vocabulary is counted, and {given} "
            "is given: leave one of the two out",
        )
        default = type(self).held_out_size
        require(
            self.dataset in ONE_FILE or self.held_out_size == default,
            "--held_out_size is for --dataset=enwik8 and text8, whose one file "
            f"is cut; --dataset={self.dataset} has files of its splits: leave "
            "it out",
        )

    def _fill(self) -> None:
        """What was not said is the data set's own, or the unit's."""
        base = DEFAULTS[self.dataset]
        unit = self.unit
        if unit is None:
            unit = "piece" if self.vocab_file.endswith(".model") else base.unit
        same = unit == base.unit
        filled = {
            "unit": unit,
            "line_end": base.line_end if same else _LINE_END.get(unit, "eos"),
            "lower_case": base.lower_case and same,
            "vocab_from": "fixed"
            if unit == "byte" and not same
            else base.vocab_from,
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
            require(
                self.unknown == "unk",
                "--unknown=error is not for --unit=piece: a SentencePiece file "
                "has <unk>; train one with --byte_fallback, which knows every "
                "character",
            )
        if self.dataset in ONE_FILE:
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
        globs = [f"{split}_glob" for split in SPLITS]
        # The vocabulary's hash stands beside the options.
        return identity(self, "data_path", *globs, "vocab_file")


@dataclasses.dataclass(frozen=True)
class StreamReadOptions:
    """Which batches a reader of streams gives.

    Attributes:
      protocol: "lanes": every token but the first is predicted, that of a lane
        from the lane before; "anchor": the original's rows, which drop what
        does not fill them and do not predict their first token; "sliding":
        every row is a window of T tokens, of which the last `stride` predict.
      order: "ordered", or "shuffled": sentences in an order drawn each epoch.
      count_mark_pairs: False gives the prediction of `<S>` after `<S>` (One
        Billion Word as released) no weight.
      vary_length: training segments of random lengths around T, see
        `data.language_modeling.reading_schedule`; their batches have as many
        columns as the longest of their rows.
      stride: how far the window of protocol "sliding" moves.
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
