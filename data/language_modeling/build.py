"""Text -> token streams, with the factory of `data.records`."""

import itertools
import os

from common import files
from common.contract.symbols import MANY_UNKNOWN
from common.errors import UserError
from common.process import workers
from common.vocabularies import vocabulary
from data.corpus import documents as corpus
from data.language_modeling import official_splits
from data.language_modeling.block_builder import BlockBuilder, Plan, text_of
from data.language_modeling.manifest import StreamFile, StreamManifest
from data.language_modeling.options import SPLITS, LMDataOptions
from data.records import build as factory
from data.records import build_plan
from data.records.layout import BuildLayout
from data.text import lm_vocabulary, units
from data.text.tokenizer import Tokenizer

# Text settings that a vocabulary file of ours says itself.
_SAID = ("unit", "line_end", "lower_case")


def build(options: LMDataOptions, log=print) -> StreamManifest:
    """Builds a data directory, or goes on where a build was interrupted."""
    return factory.build(Streams(options), log)


class Streams(BuildLayout):
    """A stream of tokens per split; no batch, no segment length.

    Raises UserError where the input files or a given vocabulary cannot be read.
    """

    block_builder = BlockBuilder
    manifest = StreamManifest
    token_count = "tokens"

    def __init__(self, options: LMDataOptions):
        units.check_settings(
            options.unit, options.line_end, options.lower_case, options.unknown
        )
        self.options = options
        self._sources = official_splits.find(options)
        paths = self._sources.paths.values()
        self.paths = list(dict.fromkeys(itertools.chain(*paths)))
        corpus.check_text_field(options.text_field, self.paths)
        self._splits: tuple[str, ...] = ()
        self._given = _given(options)
        self._vocabulary = self._given

    def text_line(self) -> str:
        options = self.options
        case = ", lower-cased" if options.lower_case else ""
        source = f"counted from {options.vocab_from}"
        if self._given:
            source = f"given, {self._given.size} symbols"
        return (
            f"{options.dataset}, unit {options.unit}, line end "
            f"{options.line_end}{case}; vocabulary {source}"
        )

    def identity(self) -> dict:
        return {
            "options": self.options.identity(),
            "given_vocabulary": self._given.sha256 if self._given else None,
            "splits": {
                split: [os.path.basename(p) for p in paths]
                for split, paths in self._sources.paths.items()
            },
        }

    def plan_blocks(self) -> list[tuple[corpus.Block, ...]]:
        """Runs of lines; a block is of one split."""
        size = int(self.options.block_megabytes * 1e6)
        split_blocks = self._sources.plan(max(size, 1))
        self._splits = tuple(split for split, _ in split_blocks)
        return [parts for _, parts in split_blocks]

    def make_plan(self, blocks, stored, save, log) -> Plan:
        """The vocabulary: copied, or counted once and kept."""
        folder = self.options.output_dir
        save()
        if isinstance(self._given, lm_vocabulary.PieceVocabulary):
            tokenizer = self._given.tokenizer
            path = vocabulary.copy(
                tokenizer.vocabulary, tokenizer.settings, folder
            )
        else:
            path = os.path.join(folder, lm_vocabulary.FILE_NAME)
            if self._given is None:
                self._vocabulary = self._counted(path, blocks, stored, log)
            self._vocabulary.save(path)
            save()
        return Plan(tuple(blocks), self._splits, path, self._vocabulary.sha256)

    def _counted(self, path, blocks, stored, log):
        """The vocabulary of the text as it is now; see `count_vocabulary`."""
        chosen = [
            number
            for number, split in enumerate(self._splits)
            if self.options.vocab_from == "all" or split == "train"
        ]
        if self.options.vocab_from == "fixed":
            symbols, how = map(str, range(256)), self.options
            return lm_vocabulary.SymbolVocabulary(
                "byte", symbols, how.line_end, False, how.unknown
            )
        workers_ = self.options.num_workers
        if "vocabulary_text" in stored and files.exists(path):
            hashes = build_plan.hash_blocks(blocks, chosen, workers_)
            if [hashes[n] for n in chosen] == stored["vocabulary_text"]:
                vocabulary = lm_vocabulary.load(path)
                if vocabulary.sha256 == stored["vocabulary_sha256"]:
                    return vocabulary
            log("the text was changed since the vocabulary was counted")
        log("counting the vocabulary")
        vocabulary, texts = count_vocabulary(self.options, blocks, chosen)
        stored["vocabulary_text"] = texts
        stored["vocabulary_sha256"] = vocabulary.sha256
        log(f"vocabulary: {vocabulary.size} {vocabulary.unit}s")
        return vocabulary

    def check(self, summaries) -> None:
        """Refuses a split without a token to predict."""
        for split in self._sources.paths:
            tokens = self.tokens([s for s in summaries if s["split"] == split])
            if tokens < 2:
                raise corpus.CorpusError(
                    f"the {split} split has {tokens} tokens: nothing to "
                    f"predict; check {self._sources.paths[split][0]}"
                )

    def make_manifest(self, plan, summaries, text_sha256) -> StreamManifest:
        counts = {}
        for summary in summaries:
            of_split = counts.setdefault(summary["split"], {})
            for name, value in summary["counts"].items():
                of_split[name] = of_split.get(name, 0) + value
        return StreamManifest(
            data_dir=self.options.output_dir,
            options=self.options.identity(),
            vocab_size=self._vocabulary.size,
            versions=build_plan.versions(),
            counts=counts,
            files=tuple(StreamFile(**f) for s in summaries for f in s["files"]),
            text_sha256=text_sha256,
            vocabulary_sha256=plan.vocabulary_sha256,
        )

    def finish(self, manifest, log) -> StreamManifest:
        for split in SPLITS:
            if manifest.has(split):
                c = manifest.split_counts(split)
                log(
                    f"{split}: {c.tokens} tokens ({c.unknown / c.tokens:.2%} "
                    f"unknown), {c.words} words, {c.lines} lines, "
                    f"{c.characters} characters, {c.bytes} bytes"
                )
                if c.unknown / c.tokens > MANY_UNKNOWN:
                    log(
                        f"warning: {split}: {c.unknown / c.tokens:.1%} of the "
                        "tokens are <unk>: the vocabulary lacks symbols of "
                        "this text; give another --vocab_file, "
                        "--vocab_from=all, or --unit=byte"
                    )
        log(
            f"vocabulary {manifest.vocabulary_sha256[:12]}, "
            f"{manifest.vocab_size} {manifest.options['unit']}s"
        )
        for line in self._trained_too():
            log(line)
        return manifest

    def _trained_too(self) -> list[str]:
        """A line per held-out file that is trained on, too."""
        train = set(map(_place, self._sources.paths["train"]))
        return [
            f"note: {path} is in train, too: the {split} split measures what "
            "was trained on"
            for split, paths in self._sources.paths.items()
            for path in paths
            if split != "train"
            and split not in self._sources.ranges
            and _place(path) in train
        ]


def _place(path: str) -> str:
    """One name of a file: `a.txt` and `./a.txt` are one."""
    return path if files.is_remote(path) else os.path.abspath(path)


# --- Vocabularies -------------------------------------------------------------


def _given(options: LMDataOptions) -> lm_vocabulary.Vocabulary | None:
    """The vocabulary that the options name; None = it is counted."""
    path = official_splits.vocabulary_file(options)
    if not path:
        return None
    if options.unit == "piece":
        return lm_vocabulary.PieceVocabulary(
            path, options.line_end, Tokenizer(path)
        )
    if not path.endswith(".json"):
        symbols = units.read_list(path, options.unit)
        if not symbols:
            raise UserError(
                f"--vocab_file={path} is empty: give one word a line"
            )
        return lm_vocabulary.SymbolVocabulary(
            options.unit,
            symbols,
            options.line_end,
            options.lower_case,
            options.unknown,
        )
    vocabulary = lm_vocabulary.load(path)
    wrong = [
        f"{name}: wanted {getattr(options, name)}, found {getattr(vocabulary, name)}"
        for name in _SAID
        if getattr(options, name) != getattr(vocabulary, name)
    ]
    if options.unknown == "error" and vocabulary.unk_id is not None:
        wrong.append(f"unknown: wanted error, found {vocabulary.unknown}")
    if wrong:
        raise UserError(
            f"--vocab_file={path} reads text in another way: "
            f"{'; '.join(wrong)}; give the same flags or count another one"
        )
    return vocabulary


def _counter(options: LMDataOptions, blocks):
    """What workers do: block number -> its SHA-256, counts of its symbols."""
    reader = corpus.BlockReader()

    def count(number: int) -> tuple[str, dict[str, int]]:
        parts = blocks[number]
        data, digest = corpus.read_parts(parts, reader)
        return digest, units.count(
            text_of(data, parts, options),
            options.unit,
            options.lower_case,
            options.line_end == "newline",
        )

    return count


def count_vocabulary(
    options: LMDataOptions, blocks, chosen: list[int]
) -> tuple[lm_vocabulary.SymbolVocabulary, list[str]]:
    """Counts a vocabulary; also gives the SHA-256 of each chosen block's text.

    What ends lines is a special symbol and comes first. Where something can be
    unknown (not all splits are counted, or symbols are left out) and `unknown`
    is "unk", words and characters have `<unk>`: where the text holds it (or
    `<UNK>`) it stands where its count puts it, else behind the special symbols.
    `chosen` are the numbers of the blocks that count.
    """
    counts, texts = {}, []
    for digest, block_counts in workers.run(
        _counter, (options, blocks), chosen, options.num_workers, ordered=True
    ):
        texts.append(digest)
        for symbol, number in block_counts.items():
            counts[symbol] = counts.get(symbol, 0) + number
    special = {
        "eos": [units.EOS],
        "marks": [units.MARK],
        "mark": [units.MARK],
    }.get(options.line_end, [])
    limits = (options.min_count, options.max_symbols)
    symbols = units.by_count(counts, special, *limits)
    partial = options.vocab_from != "all" or any(limits)
    if options.unknown == "unk" and options.unit != "byte" and partial:
        if not set(units.UNKNOWN) & set(symbols):
            special = [*special, units.UNKNOWN[0]]
            symbols = units.by_count(counts, special, *limits)
    return lm_vocabulary.SymbolVocabulary(
        options.unit,
        symbols,
        options.line_end,
        options.lower_case,
        options.unknown,
    ), texts
