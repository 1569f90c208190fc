"""Which examples make batch number s: a pure function of (seed, s).

Training reads the endless list `perm(epoch 0), perm(epoch 1), ...` of all
examples: batch s holds its entries `s * B .. (s + 1) * B`. So resuming at step
s needs no replay, and neither replicas nor hosts enter. With length buckets,
windows of that list (`window_size`) are sorted by length, cut into batches and
the batches shuffled, which is as stateless. Several sets with weights are one
endless list of the same kind (`Mixture`).
"""

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np

from common.errors import UserError

WINDOW = 64  # most batches that are sorted by length together
# Entries in which every set of a mixture has its exact share.
BLOCK = 1000


@dataclasses.dataclass(frozen=True)
class Mixture:
    """Sets that lie one after the other and are drawn by weight."""

    sizes: tuple[int, ...]  # examples of each set
    # how often an example of each set is drawn, relatively
    weights: tuple[float, ...]

    def counts(self) -> np.ndarray:
        """Entries of each set in a block, int64, by largest remainder.

        Raises UserError: a set's share is below one entry in a block.
        """
        share = np.array(self.sizes, float) * np.array(self.weights)
        share *= BLOCK / share.sum()
        counts = np.floor(share).astype(np.int64)
        rest = np.argsort(counts - share, kind="stable")
        counts[rest[: BLOCK - counts.sum()]] += 1
        if (counts == 0).any():
            raise UserError(
                f"--train_weights: set {int(counts.argmin()) + 1} would be "
                f"less than one example in {BLOCK}; give it more weight or "
                "leave it out"
            )
        return counts

    def entries(self, seed: int, begin: int, end: int) -> np.ndarray:
        """Entries begin..end of the endless list, int64.

        Block b holds `counts` entries of each set in an order of its own; the
        entries of one set are its endless list of permutations.
        """
        counts = self.counts()
        kinds = np.repeat(np.arange(len(counts)), counts)
        first = np.concatenate([[0], np.cumsum(self.sizes)])
        parts = []
        for block in range(begin // BLOCK, -(-end // BLOCK)):
            rng = np.random.default_rng((seed & 0xFFFFFFFF, block, 2))
            kind = rng.permutation(kinds)
            entries = np.empty(BLOCK, np.int64)
            for k, (size, count) in enumerate(
                zip(self.sizes, counts.tolist(), strict=True)
            ):
                entries[kind == k] = first[k] + endless_slice(
                    size, seed + k, block * count, (block + 1) * count
                )
            low = max(0, begin - block * BLOCK)
            parts.append(entries[low : end - block * BLOCK])
        return np.concatenate(parts)


def bucket_lengths(text: str, max_seq_length: int) -> tuple[int, ...]:
    """Parses "64,128" (or "auto") into rising lengths ending in the maximum.

    Raises UserError: not rising numbers below `max_seq_length`.
    """
    if not text:
        return (max_seq_length,)
    if text == "auto":
        lengths = [16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768]
        lengths = [n for n in lengths if n < max_seq_length]
    else:
        try:
            lengths = [int(part) for part in text.split(",")]
        except ValueError:
            lengths = [0]
    if any(n < 1 for n in lengths) or sorted(set(lengths)) != lengths:
        raise UserError(
            '--length_buckets needs rising lengths such as "64,128" or '
            f'"auto", received {text!r}'
        )
    return (*[n for n in lengths if n < max_seq_length], max_seq_length)


def fitting_length(longest: int, buckets: Sequence[int]) -> int:
    """The smallest bucket of at least `longest` tokens."""
    return next(n for n in buckets if n >= longest)


def endless_slice(
    num_examples: int, seed: int, begin: int, end: int
) -> np.ndarray:
    """Entries begin..end of `perm(epoch 0), perm(epoch 1), ...`, int64."""
    parts = []
    for epoch in range(begin // num_examples, -(-end // num_examples)):
        order = _epoch_order(num_examples, seed, epoch)
        first = epoch * num_examples
        parts.append(order[max(0, begin - first) : end - first])
    return np.concatenate(parts)


@functools.lru_cache(maxsize=8)
def _epoch_order(num_examples: int, seed: int, epoch: int) -> np.ndarray:
    """perm(epoch); kept, because every batch of an epoch asks for it."""
    rng = np.random.default_rng((seed & 0xFFFFFFFF, epoch))
    return rng.permutation(num_examples)


def window_size(
    num_examples: int, batch_size: int, mixture: Mixture | None = None
) -> int:
    """Batches that are sorted by length together, at most those of an epoch.

    Entries of several epochs would put an example next to itself: into one
    batch, in the place of others that a short training then never sees. Of a
    mixture the set counts that is read through first.
    """
    if mixture:
        pairs = zip(mixture.sizes, mixture.counts().tolist(), strict=True)
        num_examples = min(size * BLOCK // count for size, count in pairs)
    return min(WINDOW, max(1, num_examples // batch_size))


def training_batch(
    lengths: np.ndarray,
    batch_size: int,
    seed: int,
    step: int,
    sort_by_length: bool = False,
    mixture: Mixture | None = None,
) -> np.ndarray:
    """Examples of training batch `step`, int64 `[batch_size]`.

    Of lengths `[N]`, N > 0, in tokens; batches of like lengths where
    `sort_by_length` (see the module).
    """
    if mixture:
        endless = functools.partial(mixture.entries, seed)
    else:
        endless = functools.partial(endless_slice, len(lengths), seed)
    if not sort_by_length:
        start = step * batch_size
        return endless(start, start + batch_size)
    count = window_size(len(lengths), batch_size, mixture)
    window, offset = divmod(step, count)
    size = count * batch_size
    entries = endless(window * size, (window + 1) * size)
    entries = entries[np.argsort(lengths[entries], kind="stable")]
    rng = np.random.default_rng((seed & 0xFFFFFFFF, window, 1))
    row = rng.permutation(count)[offset]
    return entries[row * batch_size : (row + 1) * batch_size]


def evaluation_batches(
    lengths: np.ndarray, batch_size: int, sort_by_length: bool = False
) -> list[np.ndarray]:
    """Every example once, in input order or by length; the last one ragged."""
    order = np.arange(len(lengths))
    if sort_by_length:
        order = np.argsort(lengths, kind="stable")
    return [order[i : i + batch_size] for i in range(0, len(order), batch_size)]
