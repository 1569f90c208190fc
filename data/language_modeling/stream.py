"""Places in a stream -> tokens, read from the records (no TensorFlow)."""

import functools
import os
from collections.abc import Iterator

import numpy as np

from common.errors import UserError
from data.language_modeling.manifest import StreamFile, StreamManifest
from data.records.lane_files import OpenFiles

_SEED_SENTENCES = 201
_MORE_BLOCKS = 8  # whose sentences are known, beside one per row


class TokenStream:
    """The tokens of one split, at any place."""

    def __init__(self, manifest: StreamManifest, split: str, verify=True):
        self.manifest, self.verify = manifest, verify
        self.record_files = manifest.select(split)
        self._size = manifest.options["record_tokens"]
        sizes = [f.tokens for f in self.record_files]
        self.ends = np.cumsum(sizes, dtype=np.int64)
        self._open = OpenFiles()

    def __len__(self) -> int:
        return int(self.ends[-1])

    def read(self, start: int, count: int) -> np.ndarray:
        """Tokens start .. start + count - 1: int32 [count].

        Raises UserError: a record that is not as the manifest says.
        """
        parts = [
            self.read_file(self.record_files[index], first, size)
            for index, first, size in _parts(self.ends, start, count)
        ]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def read_file(
        self, file: StreamFile, start: int, count: int, name="input_ids"
    ) -> np.ndarray:
        """Tokens of one file, or its `line_ends` as bool: [count]."""
        first = start // self._size
        last = (start + count - 1) // self._size
        arrays = self.records(file, np.arange(first, last + 1))
        if name == "line_ends":
            flat = np.unpackbits(arrays[name], axis=-1, bitorder="little").view(
                bool
            )
        else:
            flat = arrays[name].astype(np.int32)
        start -= first * self._size
        return flat.reshape(-1)[start : start + count]

    def gather(self, file: StreamFile, places: np.ndarray) -> np.ndarray:
        """Tokens at any places of one file: int32 like `places`."""
        numbers, inside = np.divmod(places, self._size)
        numbers, which = np.unique(numbers, return_inverse=True)
        ids = self.records(file, numbers)["input_ids"]
        return ids[which, inside].astype(np.int32)

    def records(self, file: StreamFile, numbers: np.ndarray) -> dict:
        """Decoded records of one file, by ascending numbers.

        Raises UserError: a record that is not as the manifest says.
        """
        path = os.path.join(self.manifest.data_dir, file.name)
        layout = self.manifest.format
        begins = np.flatnonzero(np.diff(numbers, prepend=-2) != 1)
        sizes = np.diff(np.append(begins, len(numbers)))
        f = self._open.get(path)
        parts = [
            layout.read(f, path, int(numbers[first]), int(size))
            for first, size in zip(begins, sizes, strict=True)
        ]
        raw = parts[0] if len(parts) == 1 else np.concatenate(parts)
        arrays = layout.decode(raw)
        if self.verify:
            bad = layout.find_corrupt(raw)
            if bad is None:
                bad = self._find_wrong(file, numbers, arrays)
            if bad is not None:
                number, what = int(numbers[bad[0]]), bad[1]
                self.manifest.refuse_record(file.name, number, what)
        return arrays

    def _find_wrong(self, file, record, arrays) -> tuple[int, str] | None:
        """The first record that holds what it cannot hold."""
        meta, ids = arrays["meta"], arrays["input_ids"]
        used = np.minimum(file.tokens - record * self._size, self._size)
        limit = self.manifest.vocab_size
        checks = {
            "another block or record than its place says": (
                (meta["block"] != file.block) | (meta["record"] != record)
            ),
            "another number of tokens than the manifest says": (
                meta["tokens"] != used
            ),
            f"an id that is not in 0..{limit - 1}": (
                (ids.min(-1) < 0) | (ids.max(-1) >= limit)
            ),
        }
        for what, wrong in checks.items():
            if wrong.any():
                return int(np.argmax(wrong)), what
        return None


class ShuffledStream:
    """The tokens of one split with its sentences in an order drawn per epoch.

    Blocks are read in a drawn order, and the sentences of each block in
    another: what is drawn is a function of seed, epoch and block. A sentence
    ends where a line does; UserError: text without line ends. `readers` rows
    read at once, each somewhere else.
    """

    def __init__(self, stream: TokenStream, seed: int, readers: int):
        self._stream, self._seed = stream, seed
        sentences = sum(f.sentences for f in stream.record_files)
        if sentences < 2:
            raise UserError(
                f"{stream.manifest.data_dir}: a split with {sentences} line "
                "ends: sentences cannot be shuffled (order=shuffled); read it "
                "in order, or build the data with --line_end=eos"
            )
        self._order = functools.lru_cache(4)(self._draw_order)
        self._sentences = functools.lru_cache(readers + _MORE_BLOCKS)(
            self._draw_sentences
        )

    def __len__(self) -> int:
        return len(self._stream)

    def _rng(self, *parts: int) -> np.random.Generator:
        seed = np.random.SeedSequence([self._seed, _SEED_SENTENCES, *parts])
        return np.random.Generator(np.random.PCG64(seed))

    def _draw_order(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """Blocks of an epoch in order, and where each ends."""
        order = self._rng(epoch, 0).permutation(len(self._stream.record_files))
        sizes = [self._stream.record_files[i].tokens for i in order]
        return order, np.cumsum(sizes, dtype=np.int64)

    def _draw_sentences(self, epoch: int, number: int):
        """Of a block: starts and lengths in drawn order, and their ends."""
        file = self._stream.record_files[number]
        flags = self._stream.read_file(file, 0, file.tokens, "line_ends")
        bounds = np.flatnonzero(flags) + 1
        if not len(bounds) or bounds[-1] != file.tokens:
            bounds = np.append(bounds, file.tokens)
        bounds = bounds.astype(np.int32)
        starts = np.insert(bounds[:-1], 0, 0)
        order = self._rng(epoch, 1, number).permutation(len(starts))
        lengths = (bounds - starts)[order]
        return starts[order], lengths, np.cumsum(lengths, dtype=np.int32)

    def read(self, start: int, count: int, epoch: int) -> np.ndarray:
        """Tokens start .. start + count - 1 of an epoch: int32 [count]."""
        order, ends = self._order(epoch)
        parts = [
            self._read_block(epoch, int(order[index]), first, size)
            for index, first, size in _parts(ends, start, count)
        ]
        return np.concatenate(parts)

    def _read_block(self, epoch, number, start, count) -> np.ndarray:
        file = self._stream.record_files[number]
        starts, lengths, ends = self._sentences(epoch, number)
        first = int(np.searchsorted(ends, start, side="right"))
        last = int(np.searchsorted(ends, start + count, side="left")) + 1
        starts, lengths = starts[first:last], lengths[first:last]
        places = np.repeat(starts, lengths) + _within(lengths)
        skip = start - int(ends[first] - lengths[0])
        return self._stream.gather(file, places[skip : skip + count])


def _parts(
    ends: np.ndarray, start: int, count: int
) -> Iterator[tuple[int, int, int]]:
    """(number, start in it, tokens) of what lies end to end up to `ends`."""
    index = int(np.searchsorted(ends, start, side="right"))
    while count > 0:
        before = int(ends[index - 1]) if index else 0
        size = min(count, int(ends[index]) - start)
        yield index, start - before, size
        start, count, index = start + size, count - size, index + 1


def _within(lengths: np.ndarray) -> np.ndarray:
    """0 .. length - 1 of each, laid end to end."""
    ends = np.cumsum(lengths)
    return np.arange(ends[-1]) - np.repeat(ends - lengths, lengths)
