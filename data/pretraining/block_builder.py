"""One block of text -> lanes of two segments (in worker processes).

Beside its own text a block of one document needs a neighbour's, for the Bs.
"""

import base64
import dataclasses
import hashlib
import zlib
from collections.abc import Iterator

import numpy as np

from data.corpus import documents as corpus
from data.corpus.sources import Reading
from data.pretraining.manifest import FLAG_BACKWARD, make_format
from data.pretraining.options import SPLITS, BuildOptions
from data.pretraining.sampling import original_sampler, record_arrays
from data.pretraining.sampling import segments as segments_lib
from data.pretraining.sampling.token_stream import Stream, make_stream, tokenize
from data.records import layout
from data.text.tokenizer import Tokenizer

DIRECTIONS = ("forward", "backward")
# What the parts of a seed mean.
_SEED_DEV, _SEED_NEIGHBOUR, _SEED_RECORDS, _SEED_SHARE = range(4)
# Blocks that may be read for the Bs of a block of one document.
_NEIGHBOURS = {"train": 4, "dev": 32}
_EXPLICIT = 16  # records with explicit masks that are made at once


@dataclasses.dataclass(frozen=True)
class Plan(layout.Plan):
    """What is built, and the documents that are left out."""

    segments_per_lane: dict[str, int]
    # numbers of the documents of each block that came before; blocks that are
    # read again are not among them
    duplicates: dict[int, tuple[int, ...]]
    # what each block is a reading of; empty = its own, whole
    readings: tuple[Reading, ...] = ()

    def reading(self, block: int) -> Reading:
        return self.readings[block] if self.readings else Reading("", block)

    def suffix(self, block: int) -> str:
        """Which documents of a block are left out as duplicates."""
        numbers = self.duplicates.get(self.reading(block).first)
        if not numbers:
            return ""
        return "-" + hashlib.sha256(repr(tuple(numbers)).encode()).hexdigest()


def record_name(split: str, direction: str, number: int, block: int) -> str:
    """File name of one split, direction and pass of a block."""
    return f"{split}-{direction}-pass{number}-block{block:05d}.tfrecord"


class BlockBuilder(layout.BlockBuilder):
    """Builds the lanes of a block."""

    def __init__(
        self,
        options: BuildOptions,
        plan: Plan,
        tokenizer: Tokenizer | None = None,
    ):
        super().__init__(options, plan)
        self.tokenizer = tokenizer or Tokenizer(
            options.spiece_model_file, options.text
        )
        self.format = make_format(
            options.seq_len,
            options.num_predict,
            self.tokenizer.vocab_size,
            options.materialize_masks,
        )

    def write_block(self, block: int) -> dict:
        """Writes the files of a block; gives files, counts and targets."""
        streams, counts = self._streams(block)
        summary = {"files": [], "counts": counts, "targets": {}}
        for split in SPLITS:
            stream = streams[split]
            if not len(stream):
                continue
            foreign = None
            if len(stream.documents) == 1:
                foreign = self._neighbour(block, split)
            target_counts = np.zeros(self.tokenizer.vocab_size, np.int64)
            for number in range(self.options.num_passes):
                summary["files"] += self._write_pass(
                    block, split, number, stream, foreign, target_counts
                )
            packed = zlib.compress(target_counts.astype("<u4").tobytes())
            summary["targets"][split] = base64.b64encode(packed).decode()
        return summary

    # --- Text -----------------------------------------------------------------

    def _streams(
        self, block: int, splits=SPLITS
    ) -> tuple[dict[str, Stream], dict[str, int]]:
        """The streams of some splits and what was left out."""
        options = self.options
        block_documents = self.read(block)
        keep = np.ones(len(block_documents), bool)
        reading = self.plan.reading(block)
        duplicates = list(self.plan.duplicates.get(reading.first, ()))
        keep[duplicates] = False
        dev = self.rng(_SEED_DEV, reading.first).random(len(block_documents))
        dev = dev < options.dev_fraction
        read = self._drawn(block, dev)
        by_weight = keep & ~read
        keep &= read
        symbolic = np.zeros(len(block_documents), bool)
        if options.max_symbol_ratio < 1.0:
            ratios = [corpus.symbol_ratio(d.lines) for d in block_documents]
            symbolic = keep & (np.asarray(ratios) > options.max_symbol_ratio)
            keep &= ~symbolic
        if len(splits) == 1:
            keep &= dev if splits[0] == "dev" else ~dev
        dev = dev[keep]
        kept = [d for d, k in zip(block_documents, keep, strict=True) if k]
        ids, sizes, sentences = tokenize(kept, self.tokenizer)
        ends = np.cumsum(sizes)[np.cumsum(sentences) - 1] if kept else []
        tokens = np.diff(ends, prepend=0) if kept else np.zeros(0, np.int64)
        short = tokens < options.min_document_tokens
        streams = {}
        counts = {
            "documents": len(block_documents),
            "left_out_duplicate": len(duplicates),
            "left_out_symbols": int(symbolic.sum()),
            "left_out_short": int(short.sum()),
        }
        if self.plan.readings:
            counts["left_out_weight"] = int(by_weight.sum())
        for split, wanted in (("train", ~dev & ~short), ("dev", dev & ~short)):
            of_sentence = np.repeat(wanted, sentences)
            streams[split] = make_stream(
                ids[np.repeat(of_sentence, sizes)],
                sizes[of_sentence],
                sentences[wanted],
                self._unit_starts(),
            )
            counts[f"{split}_documents"] = int(wanted.sum())
            counts[f"{split}_tokens"] = len(streams[split])
            unknown = streams[split].ids == self.tokenizer.symbols.unk
            counts[f"{split}_unknown"] = int(unknown.sum())
        text = streams["train"]
        split_words = text.words & ~self._unit_starts()[text.ids]
        counts["train_tokens_of_long_words"] = int(split_words.sum())
        return streams, counts

    def _drawn(self, block: int, dev: np.ndarray) -> np.ndarray:
        """bool [documents]: which a source's weight leaves in this reading.

        Held-out documents (`dev`) are read once at most, so none is trained on.
        """
        reading = self.plan.reading(block)
        drawn = np.ones(len(dev), bool)
        if reading.share < 1.0:
            drawn = self.rng(_SEED_SHARE, block).random(len(dev))
            drawn = drawn < reading.share
        return drawn & ~dev if reading.first != block else drawn

    def _unit_starts(self) -> np.ndarray:
        """bool [V]: which pieces begin a unit that spans are made of."""
        if self.options.span_unit == "word":
            return self.tokenizer.word_starts
        return np.ones(self.tokenizer.vocab_size, bool)

    def _neighbour(self, block: int, split: str) -> Stream | None:
        """Text of the same split of a block that the seed names, for Bs.

        Few blocks may have dev text, and theirs is quickly read: more are tried.
        """
        reading = self.plan.reading(block).first
        others = [
            other
            for other in range(len(self.plan.blocks))
            if self.plan.reading(other).first != reading
        ]
        order = self.rng(_SEED_NEIGHBOUR, block).permutation(others)
        for other in order[: _NEIGHBOURS[split]]:
            stream = self._streams(int(other), (split,))[0][split]
            if len(stream):
                return stream
        return None

    # --- Records --------------------------------------------------------------

    def _write_pass(
        self, block, split, number, stream, foreign, target_counts
    ) -> Iterator[dict]:
        count = 2 if self.options.bi_data else 1
        for direction, name in enumerate(DIRECTIONS[:count]):
            rng = self.rng(
                _SEED_RECORDS, block, number, SPLITS.index(split), direction
            )
            text = stream.reversed() if direction else stream
            if foreign is not None:
                extra = foreign.reversed() if direction else foreign
                text = text.joined(extra)
            path = record_name(split, name, number, block)
            text = text.typed(self.format.features[0].dtype)
            lanes = self.plan.segments_per_lane[split]
            yield {
                "name": path,
                "block": block,
                "split": split,
                "direction": name,
                "number": number,
            } | self._write_file(
                path, text, len(stream), lanes, direction, rng, target_counts
            )

    def _write_file(
        self, name, text, length, per_lane, direction, rng, target_counts
    ) -> dict:
        options = self.options
        cut = segments_lib.make_segments(
            text, length, options.seq_len, options.reuse_len, rng
        )
        real = len(cut)
        cut = segments_lib.pad_to_lanes(cut, per_lane)
        sums = {"targets": 0, "is_next": 0}

        def chunks() -> Iterator[dict[str, np.ndarray]]:
            for first in range(0, len(cut), record_arrays.CHUNK):
                part = cut.slice(first, first + record_arrays.CHUNK)
                arrays = self._arrays(text, part, direction == 1, rng)
                meta = arrays["meta"]
                number = first + np.arange(len(part))
                meta["lane"], meta["segment"] = np.divmod(number, per_lane)
                meta["flags"] |= direction * FLAG_BACKWARD
                ids = arrays["input_ids"][arrays["is_target"]]
                counts = np.bincount(ids, minlength=len(target_counts))
                target_counts[:] += counts
                sums["targets"] += len(ids)
                sums["is_next"] += int(meta["label"].sum())
                yield from self._explicit(arrays)

        return (
            {
                "lanes": len(cut) // per_lane,
                "segments": real,
                "tokens": int(
                    cut.reuse.sum() + cut.a_len.sum() + cut.b_len.sum()
                ),
            }
            | self.write_records(name, chunks())
            | sums
        )

    def _arrays(self, text, part, backward, rng):
        drawn = (part, self.options, self.tokenizer.symbols, rng)
        if self.options.sampler == "original":
            words = (self.tokenizer.word_starts, backward)
            return original_sampler.make_arrays(text, words, *drawn)
        return record_arrays.make_arrays(text, *drawn)

    def _explicit(self, arrays) -> Iterator[dict[str, np.ndarray]]:
        """With explicit masks, T / 4 times as large: fewer records at once."""
        if not self.options.materialize_masks:
            yield arrays
            return
        for first in range(0, len(arrays["meta"]), _EXPLICIT):
            part = {k: v[first : first + _EXPLICIT] for k, v in arrays.items()}
            yield record_arrays.materialize(part)
