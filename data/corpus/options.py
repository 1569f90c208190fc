"""Options of what prepares text: corpora, filters, vocabularies."""

import dataclasses

from common import files
from common.checks import plain_name, require
from common.settings import REQUIRED, check, setting
from common.vocabularies import text_settings
from common.vocabularies.text_settings import TextSettings

MODEL_TYPES = ("unigram", "bpe", "char")
CORPUS_SIZES = ("small", "large")
JSON_ENDINGS = (".jsonl", ".json")  # of files with a JSON document per line
_SMALL_MEGABYTES = 8.0


def check_text_name(path: str) -> None:
    """Requires an --output_file that no reader takes for another form."""
    plain_name(path)
    require(
        not path.lower().endswith(JSON_ENDINGS),
        f"--output_file={path} is called like JSON, but text is written: give a "
        "name that ends with .txt",
    )


@dataclasses.dataclass(frozen=True)
class DemoCorpusOptions:
    """Where the corpus goes and how much of it."""

    output_dir: str = setting(REQUIRED, "Folder that receives the corpus.")
    max_megabytes: float | None = setting(
        None,
        "Cut the pretraining text at this number of megabytes. Default: 8 with "
        "--size=small, all with --size=large.",
        bounds="> 0",
    )
    examples_per_class: int = setting(
        600,
        "Rows per class of the classification training split.",
        bounds=">= 2",
    )
    size: str = setting(
        "small",
        "small = documentation of the installed packages; large = text of "
        "packages of the registries, without classification. The latter needs "
        "a network and requirements-corpus.txt.",
        choices=CORPUS_SIZES,
    )
    sources: tuple[str, ...] = setting(
        (),
        "With --size=large: names in the table of sources, with commas; empty"
        " = all.",
    )
    source_table: str = setting(
        "",
        "With --size=large: a table of sources of your own, in TOML.",
    )
    find_links: tuple[str, ...] = setting(
        (),
        "With --size=large: folders or addresses (also of Debian mirrors) "
        "that are looked through for packages before the registries.",
    )
    cache_dir: str = setting(
        "",
        "With --size=large: folder that keeps the packages; empty = "
        "OUTPUT_DIR/packages.",
    )
    num_workers: int = setting(
        1,
        "With --size=large: processes; any number gives the same bytes.",
        bounds=">= 1",
    )

    def __post_init__(self) -> None:
        check(self)
        large_only = ("sources", "source_table", "find_links", "cache_dir")
        named = [f"--{name}" for name in large_only if getattr(self, name)]
        named += ["--num_workers"] if self.num_workers > 1 else []
        require(
            self.size == "large" or not named,
            f"{', '.join(named)} without --size=large",
        )
        require(
            self.size == "small" or not files.is_remote(self.output_dir),
            f"--output_dir={self.output_dir}: --size=large works in a folder of "
            "this machine; give one, and copy its pretrain.txt",
        )
        if self.size == "small" and self.max_megabytes is None:
            object.__setattr__(self, "max_megabytes", _SMALL_MEGABYTES)


@dataclasses.dataclass(frozen=True)
class SentencePieceOptions:
    """How a vocabulary is trained."""

    input_glob: str = setting(
        REQUIRED,
        "Text files to learn from: one sentence per line, or .jsonl, plain or "
        ".gz; comma-separated globs.",
    )
    model_prefix: str = setting(
        REQUIRED, "Output prefix: writes PREFIX.model, .vocab and .json."
    )
    vocab_size: int = setting(
        32000, "Pieces in the vocabulary, the nine special symbols included."
    )
    model_type: str = setting(
        "unigram", "Kind of vocabulary.", choices=MODEL_TYPES
    )
    character_coverage: float = setting(
        0.9995,
        "Share of the text's characters that get a piece; 1.0 for small "
        "alphabets, 0.9995 for Chinese or Japanese.",
        bounds="[0.9, 1]",
    )
    text: TextSettings = TextSettings(rule=text_settings.COMPOSED)
    input_sentence_size: int = setting(
        10000000,
        "Learn from a sample of this many sentences; 0 takes all.",
        bounds=">= 0",
    )
    seed: int = setting(
        0, "Seed of the sample of sentences.", bounds="[0, 4294967295]"
    )
    num_unused: int = setting(
        0,
        "Of --vocab_size, pieces <unused0>, ... for symbols added later.",
        bounds=">= 0",
    )
    byte_fallback: bool = setting(
        False, "Cut characters without a piece into bytes; needs 256 pieces."
    )
    num_threads: int = setting(
        1,
        "Threads that train. The file is the same wherever their number is;"
        " another number may give other unigram pieces.",
        bounds=">= 1",
    )
    text_field: str = setting(
        "text", "Field of JSONL files that holds the text."
    )

    def __post_init__(self) -> None:
        check(self)
        require(
            not self.model_prefix.endswith("/"),
            f"--model_prefix={self.model_prefix} is a folder, and its files "
            "would be hidden: give the beginning of a name in it, such as "
            f"{self.model_prefix}spiece",
        )
        require(
            self.vocab_size - self.num_unused >= 16,
            "--vocab_size must be at least 16 (9 symbols and the characters) "
            f"above --num_unused={self.num_unused}, received {self.vocab_size}",
        )


CORPUS_LAYOUTS = (
    "wikitext",
    "book",
    "wikiextractor",
    "cirrussearch",
    "wikipedia",
)


@dataclasses.dataclass(frozen=True)
class ConvertOptions:
    """What `data.convert_corpus` reads and writes."""

    input_glob: str = setting(REQUIRED, "Files to convert, plain, .gz or .bz2.")
    output_file: str = setting(REQUIRED, "Text file that is written.")
    layout: str = setting(
        "wikitext", "Layout of the input.", choices=CORPUS_LAYOUTS
    )
    paragraphs: bool = setting(False, "End paragraphs with <eop>.")

    def __post_init__(self) -> None:
        check(self)
        check_text_name(self.output_file)


@dataclasses.dataclass(frozen=True)
class FilterOptions:
    """Which documents `data.filter_corpus` leaves out."""

    input_glob: str = setting(
        REQUIRED,
        "Text (documents divided by an empty line) or .jsonl files, plain "
        "or .gz; commas separate patterns.",
    )
    output_file: str = setting(
        "", "Text file that is written, or JSONL by its name."
    )
    text_field: str = setting("text", "Text field of JSONL files.")
    min_characters: int = setting(
        200, "Leave out shorter documents.", bounds=">= 0"
    )
    max_symbol_ratio: float = setting(
        0.3,
        "Leave out documents with a larger share of characters that are no "
        "letters, marks, numbers or white space; 1 = none.",
        bounds="(0, 1]",
    )
    languages: tuple[str, ...] = setting(
        (),
        "Leave out documents in other languages than these (en,de); empty = no "
        "filter. Needs requirements-corpus.txt.",
    )
    max_repeated_lines: float = setting(
        0.3,
        "Leave out documents with a larger share of characters in lines "
        "that came before in the document; 1 = none.",
        bounds="(0, 1]",
    )
    near_duplicates: float = setting(
        0.8,
        "Leave out documents that share this much with an earlier one "
        "(Jaccard index of runs of five words, estimated); 1 = exact copies"
        " only. Needs requirements-corpus.txt.",
        bounds="(0, 1]",
    )
    max_boilerplate: float = setting(
        0.5,
        "Leave out documents with a larger share of characters in lines "
        "that stand in --boilerplate_documents documents; 1 = none.",
        bounds="(0, 1]",
    )
    boilerplate_documents: int = setting(
        10, "A line in this many documents is boilerplate.", bounds=">= 2"
    )
    dry_run: bool = setting(False, "Count and show examples; write nothing.")
    examples: int = setting(3, "Examples of each reason.", bounds=">= 0")
    block_bytes: int = 32 << 20
    num_workers: int = setting(
        1, "Processes; any number gives the same bytes.", bounds=">= 1"
    )

    def __post_init__(self) -> None:
        check(self)
        require(
            bool(self.output_file) != self.dry_run,
            "give either --output_file or --dry_run",
        )
        plain_name(self.output_file)

    def identity(self) -> dict:
        """What the result depends on besides the text."""
        value = dataclasses.asdict(self)
        for name in ("input_glob", "output_file", "num_workers", "dry_run"):
            del value[name]
        return value
