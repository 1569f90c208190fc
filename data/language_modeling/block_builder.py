"""One block of text -> the records of its stream (in worker processes)."""

import dataclasses
import functools
from collections.abc import Callable, Iterator

import numpy as np

from common import encodings, files
from data.corpus import documents as corpus
from data.language_modeling.manifest import META, make_format
from data.language_modeling.options import ONE_FILE, LMDataOptions
from data.records import layout
from data.text import lm_vocabulary, units
from data.text.units import UnknownSymbolError

_CHUNK = 1024  # records made at once


@dataclasses.dataclass(frozen=True)
class Plan(layout.Plan):
    """What is built, and the vocabulary that it is built with."""

    splits: tuple[str, ...]
    vocabulary_path: str
    vocabulary_sha256: str

    def suffix(self, block: int) -> str:
        """The vocabulary, which other blocks' text may have made."""
        return "-" + self.vocabulary_sha256


def record_name(split: str, block: int) -> str:
    """File name of a block."""
    return f"{split}-block{block:05d}.tfrecord"


def text_of(parts: list[bytes], blocks, options: LMDataOptions) -> str | bytes:
    """The text of a block's parts, every line of a file ended.

    Bytes with unit byte. JSONL files give their texts, one after the other.
    Official files of one line (enwik8, text8) are cut anywhere and stay as they
    are. Elsewhere CR LF ends a line as LF does (`common.encodings.decode`).
    Raises CorpusError: bytes that are not UTF-8, or are packed; JSON lines
    without a text.
    """
    texts = []
    for data, block in zip(parts, blocks, strict=True):
        if corpus.is_jsonl(block.path):
            found = corpus.json_texts(data, block, options.text_field)
            text = "".join(t.removesuffix("\n") + "\n" for _, t in found)
            texts.append(text.encode() if options.unit == "byte" else text)
            continue
        if options.dataset not in ONE_FILE:
            # Blocks end where a line does, or at the end of a file.
            data = data.replace(b"\r\n", b"\n")
            if not data.endswith(b"\n"):
                data = data.removesuffix(b"\r") + b"\n"
            if not block.start:
                data = data.removeprefix(encodings.BOM)
        if options.unit == "byte":
            problem = None if block.start else encodings.packed(data[:4])
            if problem:
                raise corpus.CorpusError(f"{block.path}: line 1: {problem}")
            texts.append(data)
            continue
        texts.append(corpus.decode(data, block))
    return (b"" if options.unit == "byte" else "").join(texts)


def count_text(text: str | bytes) -> dict[str, int]:
    """`words`, `lines`, `characters`, `bytes` of a text."""
    if isinstance(text, str):
        data = text.encode("utf-8", "surrogatepass")
    else:  # the same white space as in text
        data, text = text, text.decode("utf-8", "replace")
    # Bytes that continue a character are 10xxxxxx.
    begins = np.frombuffer(data, np.uint8) & 0xC0 != 0x80
    return {
        "words": len(text.split()),
        "lines": text.count("\n"),
        "characters": int(np.count_nonzero(begins)),
        "bytes": len(data),
    }


def _begins_inside_a_word(data: bytes, block: corpus.Block) -> bool:
    """Of a block that is cut anywhere: the one before has counted the word."""
    if not data or data[:1].isspace():
        return False
    with files.open_binary(block.path) as f:
        f.seek(block.start - 1)
        return not f.read(1).isspace()


class BlockBuilder(layout.BlockBuilder):
    """Builds blocks in turn; UserError: the vocabulary is not the plan's."""

    def __init__(self, options: LMDataOptions, plan: Plan):
        super().__init__(options, plan)
        self.vocabulary = lm_vocabulary.load(
            plan.vocabulary_path, options.line_end
        )
        self.vocabulary.require(plan.vocabulary_sha256, "this build")
        self.format = make_format(options.record_tokens, self.vocabulary.size)

    def write_block(self, block: int) -> dict:
        """Writes the stream of a block; gives its file and counts."""
        split = self.plan.splits[block]
        parts = self.plan.blocks[block]
        part_bytes = self.read_bytes(block)
        text = text_of(part_bytes, parts, self.options)
        first = block == self.plan.splits.index(split)
        place = functools.partial(
            _place, part_bytes, parts, self.options, self.vocabulary
        )
        ids, ends = self._encode(text, first, place)
        counts = count_text(text) | {"tokens": len(ids)}
        if self.options.dataset in ONE_FILE and not first:
            counts["words"] -= _begins_inside_a_word(part_bytes[0], parts[0])
        unknown = self.vocabulary.unk_id
        counts["unknown"] = int(np.count_nonzero(ids == unknown))
        mark = self.vocabulary.eos_id
        pairs = 0
        if self.options.line_end == "marks":
            pairs = np.count_nonzero((ids[1:] == mark) & (ids[:-1] == mark))
        summary = {"split": split, "counts": counts, "files": []}
        if len(ids):
            name = record_name(split, block)
            written = self.write_records(name, self._records(block, ids, ends))
            summary["files"].append(
                {
                    "name": name,
                    "block": block,
                    "split": split,
                    "records": -(-len(ids) // self.options.record_tokens),
                    "tokens": len(ids),
                    "sentences": int(ends.sum()),
                    "unknown": counts["unknown"],
                    "mark_pairs": int(pairs),
                }
                | written
            )
        return summary

    def _encode(
        self, text, first: bool, place: Callable[[str], str]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Ids int32 [n] and where lines end, bool [n].

        `place` says of a symbol where it stands.
        """
        vocabulary = self.vocabulary
        try:
            if isinstance(text, bytes):
                ids = vocabulary.encode_bytes(text)
            else:
                ids = vocabulary.encode(text)
        except UnknownSymbolError as e:
            error = UnknownSymbolError(e.symbol, place(e.symbol))
            raise corpus.CorpusError(str(error)) from e
        ends = np.zeros(len(ids), bool)
        if vocabulary.eos_id is None:
            return ids, ends
        ends = ids == vocabulary.eos_id
        if vocabulary.line_end == "marks":
            places = np.flatnonzero(ends)
            if len(places) != 2 * text.count("\n"):
                raise corpus.CorpusError(
                    f"{place(units.MARK)}the text itself holds "
                    f"{units.MARK}, which --line_end=marks puts "
                    "around lines; take it out or give --line_end=mark"
                )
            ends[places[0::2]] = False  # the marks that open lines
        if vocabulary.line_end == "mark" and first:
            ids = np.insert(ids, 0, vocabulary.eos_id)
            ends = np.insert(ends, 0, True)
        return ids, ends

    def _records(self, block: int, ids: np.ndarray, ends: np.ndarray):
        """The stream in records, the last one filled up with zeros."""
        size = self.options.record_tokens
        total = -(-len(ids) // size)
        for first in range(0, total, _CHUNK):
            part = slice(first * size, (first + _CHUNK) * size)
            count = min(_CHUNK, total - first)
            missing = count * size - len(ids[part])
            meta = np.zeros(count, META)
            meta["block"] = block
            meta["record"] = first + np.arange(count)
            meta["tokens"] = size
            meta["tokens"][-1] -= missing
            yield {
                "input_ids": np.pad(ids[part], (0, missing)).reshape(-1, size),
                "meta": meta,
                "line_ends": np.packbits(
                    np.pad(ends[part], (0, missing)).reshape(-1, size),
                    axis=-1,
                    bitorder="little",
                ),
            }


def _place(part_bytes, blocks, options, vocabulary, symbol: str) -> str:
    """Where a symbol first stands in a block's parts, for a message."""
    for data, block in zip(part_bytes, blocks, strict=True):
        for number, line in _numbered_lines(data, block, options):
            if vocabulary.unit == "byte":
                found = int(symbol.removeprefix("byte ")) in line
            else:
                shown = line.lower() if vocabulary.lower_case else line
                words = shown.split() if vocabulary.unit == "word" else shown
                found = symbol in words
            if found:
                number += 1 + corpus.lines_before(block)
                return f"{block.path}: line {number}: "
    return f"{blocks[0].path}: "


def _numbered_lines(data, block, options) -> Iterator[tuple[int, str | bytes]]:
    """Lines of a part's text, bytes with unit byte, each with that of its file."""
    if corpus.is_jsonl(block.path):
        for number, text in corpus.json_texts(data, block, options.text_field):
            for line in text.split("\n"):
                yield number, line.encode() if options.unit == "byte" else line
        return
    text = text_of([data], [block], options)
    yield from enumerate(text.split(b"\n" if options.unit == "byte" else "\n"))
