"""Leaves out short, foreign, repetitive and repeated documents.

`data.filter_corpus` is the command of it. A document is left out for the first
of the report's `REASONS` that it meets. The result depends on the text and the
options alone, not on the number of workers.
"""

import collections
import hashlib
import itertools
import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from common import encodings, files
from common.contract.symbols import EOP
from common.errors import UserError
from common.process import workers
from data.corpus import corpus_plan, quality
from data.corpus import documents as corpus
from data.corpus.documents import Block, Document
from data.corpus.options import FilterOptions

REPORT = ".report.json"
_COMPACT = 4_000_000  # line hashes that are counted at once
_SHOWN = 200  # characters of an example


REASONS = (
    "short",
    "symbols",
    "language",
    "repeated_lines",
    "exact_duplicate",
    "near_duplicate",
    "boilerplate",
)


class Report:
    """Documents and characters by reason, with examples."""

    def __init__(self, options: FilterOptions):
        self._options = options
        self.documents = collections.Counter()
        self.characters = collections.Counter()
        self.examples = collections.defaultdict(list)
        # File -> reason or "kept" -> characters.
        self.by_file = collections.defaultdict(collections.Counter)

    def add(
        self, reason: str, size: int, place: str, detail: str, beginning: str
    ) -> None:
        """Counts a document that is left out."""
        self.documents[reason] += 1
        self.characters[reason] += size
        self.by_file[place.rpartition(": line ")[0]][reason] += size
        if len(self.examples[reason]) < self._options.examples:
            self.examples[reason].append(
                {"place": place, "why": detail, "begins": beginning}
            )

    def keep(self, size: int, path: str) -> None:
        """Counts a document of a file that stays."""
        self.documents["kept"] += 1
        self.characters["kept"] += size
        self.by_file[path]["kept"] += size

    def as_dict(self) -> dict:
        """The content of the report's file."""
        left_out = {
            reason: {
                "documents": self.documents[reason],
                "characters": self.characters[reason],
                "examples": self.examples[reason],
            }
            for reason in REASONS
        }
        options = {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in self._options.identity().items()
        }
        return {
            "options": options,
            "documents": self.documents.total(),
            "characters": self.characters.total(),
            "kept": {
                "documents": self.documents["kept"],
                "characters": self.characters["kept"],
            },
            "left_out": left_out,
        }

    def lines(self, examples: bool) -> Iterator[str]:
        """For the terminal."""
        total = max(self.characters.total(), 1)
        yield f"{'':16}{'documents':>12}{'characters':>16}{'share':>8}"
        for reason in ("kept", *REASONS):
            size = self.characters[reason]
            yield (
                f"{reason:16}{self.documents[reason]:12,}{size:16,}"
                f"{size / total:8.1%}"
            )
            if not examples or reason == "kept":
                continue
            for shown in self.examples[reason]:
                yield f"    {shown['place']}: {shown['why']}"
                yield f"        {shown['begins'][:68]}"


class Measured(NamedTuple):
    """What a document is judged by."""

    line: int  # of its first line in the block, from 0
    size: int
    reason: str  # one that needs no other document, or ""
    detail: str
    hashes: np.ndarray  # uint64 [lines]
    # uint32 [128], or None without near-duplicates
    signature: np.ndarray | None
    beginning: str


class Measurer:
    """Measures the documents of one block; made once per process."""

    def __init__(self, options: FilterOptions, blocks: list[Block]):
        self._options, self._blocks = options, blocks
        self._reader = corpus.BlockReader()

    def __call__(self, number: int) -> tuple[list[Measured], int]:
        """Measures and line ends of a block."""
        documents, data = read_block(
            self._reader, self._blocks[number], self._options
        )
        return [self._measure(d) for d in documents], data.count(b"\n")

    def _measure(self, document: Document) -> Measured:
        lines = document.lines
        hashes = quality.line_hashes(lines)
        reason, detail = self._judge(lines, hashes)
        wanted = self._options.near_duplicates < 1.0 and not reason
        return Measured(
            document.line_number,
            quality.characters(lines),
            reason,
            detail,
            hashes,
            quality.signature(lines) if wanted else None,
            lines[0][:_SHOWN],
        )

    def _judge(self, lines: list[str], hashes) -> tuple[str, str]:
        """(reason, what was measured); ("", "") keeps the document so far."""
        options = self._options
        size = quality.characters(lines)
        if size < options.min_characters:
            return "short", f"{size} characters"
        if options.max_symbol_ratio < 1.0:
            share = corpus.symbol_ratio(lines)
            if share > options.max_symbol_ratio:
                return "symbols", f"{share:.0%} symbols"
        if options.languages:
            code = quality.language(lines)
            if code not in options.languages:
                return "language", f"language {code}"
        if options.max_repeated_lines < 1.0:
            share = quality.repeated_share(lines, hashes)
            if share > options.max_repeated_lines:
                return "repeated_lines", f"{share:.0%} in repeated lines"
        return "", ""


def read_block(
    reader: corpus.BlockReader, block: Block, options: FilterOptions
) -> tuple[list[Document], bytes]:
    """The documents of a block and its bytes."""
    data = reader.read(block)
    return corpus.documents(data, block, options.text_field), data


class LineNumbers:
    """Places of documents in their files; blocks come in order."""

    def __init__(self):
        self._path, self._before, self._next = "", 0, 0

    def begin(self, block: Block, line_ends: int) -> None:
        """The next block, and the number of its line ends."""
        if block.path != self._path:
            self._path, self._next = block.path, 0
        self._before, self._next = self._next, self._next + line_ends

    def place(self, line: int) -> str:
        """ "file: line" of a line of the block."""
        return f"{self._path}: line {self._before + line + 1}"


def filter_corpus(options: FilterOptions) -> Report:
    """Does what the options say; writes nothing with `dry_run`.

    Raises UserError: text that cannot be read, an unknown language, a missing
    optional library, or nothing is left.
    """
    paths = corpus.list_files(options.input_glob)
    for output in (options.output_file, options.output_file + REPORT):
        files.refuse_input(output, paths)
    # An output of JSON lines has that field, too.
    named = [*paths, options.output_file]
    corpus.check_text_field(options.text_field, named)
    report = Report(options)
    if options.dry_run:
        for _ in kept_texts(options, paths, report):
            pass
        return report
    with files.atomic_open(options.output_file, "w") as out:
        for _, text in kept_texts(options, paths, report):
            out.write(text)
        if not report.documents["kept"]:
            raise UserError(
                "no document is left; run with --dry_run to see why"
            )
        # The text gets its name behind this: never without its report.
        out.flush()
        files.write_json(options.output_file + REPORT, report.as_dict())
    return report


def check_needs(options: FilterOptions) -> None:
    """Raises UserError: an unknown language, or a library is missing."""
    if options.languages:
        quality.check_languages(options.languages)
    if options.near_duplicates < 1.0:
        quality.NearDuplicates(options.near_duplicates)


def kept_texts(
    options: FilterOptions, paths: Sequence[str], report: Report
) -> Iterator[tuple[str, str]]:
    """(path, text of a document with what ends it) of what stays, in order.

    Of two equal documents in the files `paths` the first stays.
    """
    check_needs(options)
    blocks = [
        block
        for path in paths
        for block in corpus_plan.plan_blocks(path, options.block_bytes)
    ]
    kept, frequent = _survivors(options, blocks, report)
    yield from _kept_texts(options, blocks, kept, frequent, report)


def _survivors(
    options: FilterOptions, blocks: list[Block], report: Report
) -> tuple[list[np.ndarray], np.ndarray]:
    """Documents that only boilerplate can still drop, and frequent lines.

    Per block, which documents they are, bool [documents]; uint64 hashes of the
    lines that stand in many of them.
    """
    earlier = _Earlier(options)
    numbers, counter = LineNumbers(), LineCounter()
    kept = []
    measures = workers.run(
        Measurer,
        (options, blocks),
        range(len(blocks)),
        options.num_workers,
        ordered=True,
    )
    for block, (measured, line_ends) in zip(blocks, measures, strict=True):
        numbers.begin(block, line_ends)
        kept.append(np.zeros(len(measured), bool))
        for i, m in enumerate(measured):
            location = numbers.place(m.line)
            reason, detail = m.reason, m.detail
            if not reason:
                reason, detail = earlier.compare(m, location)
            if reason:
                report.add(reason, m.size, location, detail, m.beginning)
                continue
            counter.add(m.hashes)
            kept[-1][i] = True
    return kept, counter.at_least(options.boilerplate_documents)


class _Earlier:
    """The documents that were kept so far, to compare others with."""

    def __init__(self, options: FilterOptions):
        self._places: list[str] = []
        self._numbers: dict[bytes, int] = {}
        self._near = None
        if options.near_duplicates < 1.0:
            self._near = quality.NearDuplicates(options.near_duplicates)

    def compare(self, m: Measured, place: str) -> tuple[str, str]:
        """(reason, which document it repeats); a new one becomes known."""
        data = m.hashes.tobytes()
        digest = hashlib.blake2b(data, digest_size=16).digest()
        if digest in self._numbers:
            earlier_place = self._places[self._numbers[digest]]
            return "exact_duplicate", f"equals {earlier_place}"
        if self._near and (near := self._near.find(m.signature)):
            return (
                "near_duplicate",
                f"{near[1]:.0%} as {self._places[near[0]]}",
            )
        number = self._numbers[digest] = len(self._places)
        self._places.append(place)
        if self._near:
            self._near.add(number, m.signature)
        return "", ""


class LineCounter:
    """In how many documents each line stands; 12 bytes per other line."""

    def __init__(self):
        self._hashes = np.zeros(0, np.uint64)
        self._counts = np.zeros(0, np.uint32)
        self._pending: list[np.ndarray] = []
        self._size = 0

    def add(self, hashes: np.ndarray) -> None:
        """Counts the lines of a document, each once."""
        self._pending.append(np.unique(hashes))
        self._size += len(self._pending[-1])
        if self._size > _COMPACT:
            self._compact()

    def _compact(self) -> None:
        ones = np.ones(self._size, np.uint32)
        hashes = np.concatenate([self._hashes, *self._pending])
        counts = np.concatenate([self._counts, ones])
        self._pending, self._size = [], 0
        self._hashes, inverse = np.unique(hashes, return_inverse=True)
        self._counts = np.zeros(len(self._hashes), np.uint32)
        np.add.at(self._counts, inverse, counts)

    def at_least(self, count: int) -> np.ndarray:
        """Sorted hashes of the lines that are in so many documents."""
        self._compact()
        return self._hashes[self._counts >= count]


def _kept_texts(
    options: FilterOptions, blocks, kept, frequent, report: Report
) -> Iterator[tuple[str, str]]:
    """The second reading: drops boilerplate, counts and gives the rest."""
    reader, numbers = corpus.BlockReader(), LineNumbers()
    for block, keep in zip(blocks, kept, strict=True):
        documents, data = read_block(reader, block, options)
        numbers.begin(block, data.count(b"\n"))
        rows = data.split(b"\n") if _keeps_rows(block, options) else ()
        for document in itertools.compress(documents, keep):
            lines, share = document.lines, 0.0
            if options.max_boilerplate < 1.0 and len(frequent):
                hashes = quality.line_hashes(lines)
                share = quality.share_in(lines, np.isin(hashes, frequent))
            size = quality.characters(lines)
            if share > options.max_boilerplate:
                report.add(
                    "boilerplate",
                    size,
                    numbers.place(document.line_number),
                    f"{share:.0%} in frequent lines",
                    lines[0][:_SHOWN],
                )
                continue
            report.keep(size, block.path)
            if rows:
                row = rows[document.line_number].removeprefix(encodings.BOM)
                yield block.path, row.strip().decode() + "\n"
            else:
                yield block.path, _format(document, options)


def _keeps_rows(block: Block, options: FilterOptions) -> bool:
    """Whether lines of JSON stay as they are, with all their fields."""
    return all(map(corpus.is_jsonl, (block.path, options.output_file)))


def _format(document: Document, options: FilterOptions) -> str:
    """A document as it stood in its file, with what ends it."""
    lines = [
        line + EOP if i in document.paragraph_ends else line
        for i, line in enumerate(document.lines)
    ]
    text = "\n".join(lines)
    if corpus.is_jsonl(options.output_file):
        row = {options.text_field: text}
        return json.dumps(row, ensure_ascii=False) + "\n"
    return text + "\n\n"
