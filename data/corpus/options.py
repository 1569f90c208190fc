"""Options of what prepares text: corpora, filters, vocabularies (L0)."""

import dataclasses

from common import text_settings
from common.checks import one_of, require, within
from common.text_settings import TextSettings

MODEL_TYPES = ("unigram", "bpe", "char")


@dataclasses.dataclass(frozen=True)
class DemoCorpusOptions:
    """Where the corpus goes and how much of it.

    Attributes:
      output_dir: receives `pretrain.txt`, `classification/` and `corpus.json`.
      max_megabytes: size at which the pretraining text is cut, in 1e6 bytes.
      examples_per_class: training rows of the classification set per class.
    """

    output_dir: str
    max_megabytes: float = 8.0
    examples_per_class: int = 600

    def __post_init__(self) -> None:
        within(self, "> 0", "max_megabytes")
        within(self, ">= 2", "examples_per_class")


@dataclasses.dataclass(frozen=True)
class SentencePieceOptions:
    """How a vocabulary is trained.

    Attributes:
      input_glob: text files (plain or .gz), one sentence per line.
      model_prefix: writes `<prefix>.model` and `<prefix>.vocab`.
      vocab_size: pieces, special symbols included.
      model_type: one of `MODEL_TYPES`.
      character_coverage: share of the text's characters that get a piece.
      text: how text is handled before it is cut into pieces.
      input_sentence_size: sentences sampled for training; 0 = all.
      seed: of that sample.
      num_unused: of these, pieces `<unused0>`, ... at the end that no text
        gives, for symbols that are added later.
      byte_fallback: characters without a piece become pieces of their bytes.
      num_threads: of the training. Another number may choose other unigram
        pieces; the same one chooses the same.
    """

    input_glob: str
    model_prefix: str
    vocab_size: int = 32000
    model_type: str = "unigram"
    character_coverage: float = 0.9995
    text: TextSettings = TextSettings(rule=text_settings.COMPOSED)
    input_sentence_size: int = 10_000_000
    seed: int = 0
    num_unused: int = 0
    byte_fallback: bool = False
    num_threads: int = 1

    def __post_init__(self) -> None:
        within(self, ">= 0", "num_unused", "input_sentence_size")
        within(self, ">= 1", "num_threads")
        within(self, "[0.9, 1]", "character_coverage")
        one_of(self, model_type=MODEL_TYPES)
        require(
            self.vocab_size - self.num_unused >= 16,
            "--vocab_size must be at least 16 (9 symbols and the characters) "
            f"above --num_unused={self.num_unused}, received {self.vocab_size}",
        )


CORPUS_LAYOUTS = ("wikitext", "book", "wikiextractor")


@dataclasses.dataclass(frozen=True)
class ConvertOptions:
    """What `data.convert_corpus` reads and writes.

    Attributes:
      input_glob: files, plain or .gz; commas separate patterns.
      output_file: one sentence per line, an empty line ends a document.
      layout: one of `CORPUS_LAYOUTS`.
      paragraphs: end paragraphs with `<eop>`.
    """

    input_glob: str
    output_file: str
    layout: str = "wikitext"
    paragraphs: bool = False

    def __post_init__(self) -> None:
        one_of(self, layout=CORPUS_LAYOUTS)


@dataclasses.dataclass(frozen=True)
class FilterOptions:
    """Which documents `data.filter_corpus` leaves out.

    Attributes:
      input_glob: text or JSONL, plain or .gz; commas separate patterns.
      output_file: text, or JSONL by its name; empty only with `dry_run`.
      text_field: of JSONL files.
      min_characters: shorter documents are left out.
      max_symbol_ratio: largest share of symbols; 1 = any.
      languages: codes of the languages that stay; empty = all.
      max_repeated_lines: largest share of the characters in lines that came
        before in the document; 1 = any.
      near_duplicates: a document whose share of common runs of five words
        with an earlier one is at least this is left out; 1 = exact copies
        only.
      max_boilerplate: largest share of the characters in lines that stand in
        many documents; 1 = any.
      boilerplate_documents: how many are many.
      dry_run: count and show examples, write nothing.
      examples: shown for each reason.
      block_bytes: text that is read at once.
      num_workers: processes; any number gives the same bytes.
    """

    input_glob: str
    output_file: str = ""
    text_field: str = "text"
    min_characters: int = 200
    max_symbol_ratio: float = 0.3
    languages: tuple[str, ...] = ()
    max_repeated_lines: float = 0.3
    near_duplicates: float = 0.8
    max_boilerplate: float = 0.5
    boilerplate_documents: int = 10
    dry_run: bool = False
    examples: int = 3
    block_bytes: int = 32 << 20
    num_workers: int = 1

    def __post_init__(self) -> None:
        within(self, ">= 0", "min_characters", "examples")
        within(self, ">= 2", "boilerplate_documents")
        within(self, ">= 1", "num_workers")
        within(
            self,
            "(0, 1]",
            "max_symbol_ratio",
            "max_repeated_lines",
            "near_duplicates",
            "max_boilerplate",
        )
        require(
            bool(self.output_file) != self.dry_run,
            "give either --output_file or --dry_run",
        )
        require(
            not self.output_file.endswith(".gz"),
            "--output_file is written plain: give a name without .gz",
        )

    def identity(self) -> dict:
        """What the result depends on besides the text."""
        value = dataclasses.asdict(self)
        for name in ("input_glob", "output_file", "num_workers", "dry_run"):
            del value[name]
        return value
