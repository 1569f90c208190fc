"""Which tokens are prediction targets (XLNet paper section 3.1).

A span of n words has m pieces and lies uniformly inside a context of
alpha / beta * m pieces that it shares with no other span: beta of alpha tokens
are targets. Contexts tile the text. A window (reuse part, A or B) is cut out of
a tiling that began before it, with a random phase, so the rate is the same at
every position, the first and the last included; a span that crosses the
window's edge is clipped there. (Tiling that began at the window's first token
would leave its first positions almost without targets.)

    place of the text   0 1 2 3 4 5 6 7 8 9 . .     alpha 6, beta 1
    contexts           [. . S . . .|. . . . . S|    spans of one piece
                        c           c + 6 m

All windows advance together: one round of numpy calls per span, not per window.
"""

import dataclasses

import numpy as np

# Virtual one-piece words before and after the text, so that contexts may begin
# before it and spans run out of it.
_PAD = 512
# Places before a window where its tiling begins, at least; up to twice as many.
_BURN_IN = 96


@dataclasses.dataclass(frozen=True)
class SpanOptions:
    """How spans are drawn; the names are those of `BuildOptions`."""

    mask_alpha: int = 6
    mask_beta: int = 1
    span_unit: str = "word"
    span_lengths: str = "inverse"
    max_span: int = 5

    def lengths(self) -> tuple[np.ndarray, np.ndarray]:
        """Span lengths in units and their probabilities."""
        longest = 1 if self.span_unit == "single" else self.max_span
        n = np.arange(1, longest + 1)
        weights = (
            1.0 / n if self.span_lengths == "inverse" else np.ones(longest)
        )
        return n, weights / weights.sum()


class Words:
    """Where words start in a text, with virtual words around it."""

    def __init__(self, starts: np.ndarray):
        n = len(starts)
        places = np.flatnonzero(starts)
        before = np.arange(-_PAD, 0)
        after = np.arange(n, n + 2 * _PAD)
        self.starts = np.concatenate([before, places, after])
        # Number of the first word that starts at or after each place.
        marks = np.ones(n + 3 * _PAD, np.int32)
        marks[_PAD : _PAD + n] = starts
        self._next = np.cumsum(marks, dtype=np.int32)
        self._next -= marks
        self._last = len(marks) - 1

    def next(self, position: np.ndarray) -> np.ndarray:
        """Number of the first word at or after each place."""
        return self._next[np.clip(position + _PAD, 0, self._last)]

    def nearest(self, position: np.ndarray) -> np.ndarray:
        """Number of the word whose start is nearest to each place."""
        after = self.next(position)
        before = np.maximum(after - 1, 0)
        closer = position - self.starts[before] < self.starts[after] - position
        return np.where(closer, before, after)

    def size(self, word: np.ndarray, count: np.ndarray) -> np.ndarray:
        """Pieces of `count` words from number `word` on."""
        end = np.minimum(word + count, len(self.starts) - 1)
        return np.maximum(self.starts[end] - self.starts[word], 1)


def draw_spans(
    words: Words,
    first: np.ndarray,
    end: np.ndarray,
    options: SpanOptions,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draws the spans of many windows of one text.

    Args:
      first, end: int64 [W], windows [first, end); may be empty.

    Returns:
      window, start, stop: int64 [n], the n spans [start, stop) inside their
      windows, without overlap.
    """
    lengths, weights = options.lengths()
    ratio = options.mask_alpha / options.mask_beta
    cumulative = np.cumsum(weights)
    window = np.flatnonzero(end > first)
    first, end = first[window], end[window]
    # Tiling begins well before the window: there the phase is random.
    context = first - _BURN_IN * (1 + rng.random(len(window)))
    free = np.ceil(context).astype(np.int64)  # no span starts before
    spans = []
    while len(window):
        count = _draw(lengths, cumulative, rng, len(window))
        start, size = _place(words, context, free, count, ratio, rng)
        context = context + ratio * size
        free = start + size
        shown, stop = np.maximum(start, first), np.minimum(free, end)
        hit = np.flatnonzero(stop > shown)
        spans.append((window[hit], shown[hit], stop[hit]))
        on = np.flatnonzero(context < end)
        if len(on) < len(window):
            window, first, end = window[on], first[on], end[on]
            context, free = context[on], free[on]
    if not spans:
        return (np.zeros(0, np.int64),) * 3
    return tuple(np.concatenate(x) for x in zip(*spans, strict=True))


def _draw(lengths, cumulative, rng, n: int) -> np.ndarray:
    index = np.searchsorted(cumulative, rng.random(n), side="right")
    return lengths[np.minimum(index, len(lengths) - 1)]


def _place(words: Words, context, free, count, ratio, rng):
    """Word starts, and pieces, of a span in each context.

    How far into its context a span lies depends on its pieces, and its pieces
    on where it lies: two rounds settle it. Word boundaries can push a span over
    the context's edge by a part of a word, never into the span before it.
    """
    chance = rng.random(len(context))
    size = words.size(words.next(np.ceil(context).astype(np.int64)), count)
    for _ in range(2):
        target = context + chance * ((ratio - 1) * size)
        word = words.nearest(np.floor(target + 0.5).astype(np.int64))
        size = words.size(word, count)
    word = np.maximum(word, words.next(free))
    return words.starts[word], words.size(word, count)


def drop_surplus(
    group: np.ndarray,
    sizes: np.ndarray,
    capacity: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """Which spans stay where a group has more targets than it may.

    Args:
      group: int64 [n], the group of each span.
      sizes: int64 [n], its targets.
      capacity: int64 [groups].

    Returns:
      bool [n]; as many spans go, at random, as have to, and none is cut.
    """
    total = np.bincount(group, sizes, len(capacity)).astype(np.int64)
    keep = np.ones(len(group), bool)
    index = np.flatnonzero((total > capacity)[group])
    if not len(index):
        return keep
    index = index[np.lexsort((rng.random(len(index)), group[index]))]
    size, of = sizes[index], group[index]
    gone = np.cumsum(size) - size  # dropped before each, over all groups
    first = np.flatnonzero(np.diff(of, prepend=-1))
    counts = np.diff(np.append(first, len(of)))
    gone -= np.repeat(gone[first], counts)
    keep[index] = total[of] - gone <= capacity[of]
    return keep


def part_capacity(num_predict: int, seq_len: int, reuse_len: int):
    """Target slots of the reuse part and of the second part."""
    first = num_predict * reuse_len // seq_len
    return first, num_predict - first
