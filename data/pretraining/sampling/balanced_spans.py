"""Targets drawn with an equal chance for every word, to a budget.

The units (words, or pieces) of a segment's windows, reuse part, A and B, stand
in a ring. Contexts of alpha / beta * n units tile the ring, each holds one span
of n units; the last context is what is left, with as many units of targets as
its share asks for. The tiling is turned by a random number of units.

    units     0 1 2 3 4 5 6 7 8 9 10 11 (0)     alpha 6, beta 1
    contexts  . . S . .|. . . . . S  |. .       turned by 5, spans of one unit

- Every unit is a target with the same chance, beta / alpha, whatever its pieces
  and its place in a sentence or in the segment: turning makes all units equal.
- A segment of W units has W * beta / alpha units of targets, rounded up or down
  at random.
- Where a span lies in its context is drawn by rank of the places' pieces, and
  the ranks of one segment are spread evenly over 0..1: where one context gives
  a long word, another gives a short one. Each rank alone is uniform, so nothing
  is preferred, but the pieces of a segment's targets vary little, and few slots
  beyond their mean are enough (`options.default_slots`).

A span that reaches the end of a window goes on at the next window's start.
"""

import dataclasses
import functools
import math

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from data.pretraining.options import BuildOptions
from data.pretraining.sampling.permutation import row_counts
from data.pretraining.sampling.segments import Segments


def span_lengths(options: BuildOptions) -> tuple[np.ndarray, np.ndarray]:
    """Span lengths in units and their probabilities."""
    longest = 1 if options.span_unit == "single" else options.max_span
    n = np.arange(1, longest + 1)
    weights = np.ones(longest)
    if options.span_lengths == "inverse":
        weights = 1.0 / n
    return n, weights / weights.sum()


@dataclasses.dataclass(frozen=True)
class _Ring:
    """Units of the n rows that have some, turned."""

    row: np.ndarray  # int64 [n], which rows of the batch
    units: np.ndarray  # int64 [n], W
    first: np.ndarray  # int64 [n], where a row's entries in `place` begin
    # int32, for each row W + 1 ascending numbers: text tokens before each unit,
    # counted from where the row was turned to; the last is L
    place: np.ndarray
    turn: np.ndarray  # int64 [n], text tokens before that place
    length: np.ndarray  # int64 [n], text tokens L


@dataclasses.dataclass(frozen=True)
class _Contexts:
    """Contexts with a span, row by row; int64 [c] each."""

    ring: np.ndarray  # number of the row in the ring
    begin: np.ndarray  # first unit, counted from where the row was turned to
    length: np.ndarray  # units
    count: np.ndarray  # units of the span


def draw_targets(
    starts: np.ndarray,
    segments: Segments,
    reuse_len: int,
    num_predict: int,
    options: BuildOptions,
    rng: np.random.Generator,
) -> np.ndarray:
    """Draws the targets of n segments, bool [n, T].

    Args:
      starts: bool [n, T], positions of text where a unit starts; false at SEP,
        CLS and padding. What a window cuts off a unit counts as one.
      num_predict: P; of the spans of a row with more targets some go, at
        random, and one is cut between units.
    """
    ring = _turn(starts, segments, reuse_len, rng)
    contexts = _tile(ring, options, rng)
    first = _place(ring, contexts, options, rng)
    start = ring.place[first].astype(np.int64)
    stop = ring.place[first + contexts.count].astype(np.int64)
    stop = _cut_surplus(ring, contexts, first, start, stop, num_predict, rng)
    return _mark(ring, contexts.ring, start, stop, starts, segments, reuse_len)


def _turn(starts, segments: Segments, reuse_len: int, rng) -> _Ring:
    """Numbers the units of every row from a random one on."""
    seq_len = starts.shape[1]
    a_end = reuse_len + segments.a_len
    starts[segments.reuse > 0, 0] = True
    row = np.flatnonzero(segments.a_len > 0)
    starts[row, reuse_len] = True
    row = np.flatnonzero(segments.b_len > 0)
    starts[row, a_end[row] + 1] = True
    flat = np.flatnonzero(starts)
    units = row_counts(flat, starts.shape)
    rows = np.flatnonzero(units)
    units = units[rows]
    length = (segments.reuse + segments.a_len + segments.b_len)[rows]
    unit_start = np.cumsum(units) - units
    chosen = (rng.random(len(rows)) * units).astype(np.int64)
    # Text tokens before each unit: the first SEP is none.
    base = rows * seq_len
    behind = np.searchsorted(flat, base + a_end[rows]) - unit_start
    turn = flat[unit_start + chosen] - base - (chosen >= behind)
    # One entry more per row; units before the chosen one come last. So a row
    # has three runs of units, cut at the SEP and at the chosen one.
    first = np.cumsum(units + 1) - (units + 1)
    cuts = np.minimum(behind, chosen), np.maximum(behind, chosen)
    runs = np.stack([cuts[0], cuts[1] - cuts[0], units - cuts[1]], 1)
    all_rows, no_rows = np.ones(len(rows), bool), np.zeros(len(rows), bool)
    early = np.stack([all_rows, chosen > behind, no_rows], 1)
    after_sep = np.stack([no_rows, chosen > behind, all_rows], 1)
    token = early * length[:, None] - after_sep - (base + turn)[:, None]
    target_index = ~early * -units[:, None]
    target_index += (first + units - chosen - unit_start)[:, None]
    token, target_index = (
        np.repeat(x.ravel(), runs.ravel()) for x in (token, target_index)
    )
    target_index += np.arange(len(flat))
    token += flat
    token_at = np.empty(len(flat) + len(rows), np.int32)
    token_at[target_index] = token
    token_at[first + units] = length
    return _Ring(rows, units, first, token_at, turn, length)


def _tile(ring: _Ring, options: BuildOptions, rng) -> _Contexts:
    """Contexts around each ring, those without a span left out."""
    n = len(ring.row)
    _, weights = span_lengths(options)
    ratio = options.mask_alpha / options.mask_beta
    longest = int(ring.units.max(initial=0))
    columns = math.ceil(longest / ratio) + 1
    chance = rng.random((n, columns))
    count = np.ones(chance.shape, np.int64)
    for bound in np.cumsum(weights)[:-1]:
        count += chance >= bound
    total = np.cumsum(count, axis=1)
    # Contexts end at whole units; where the ratio is no whole number, a random
    # part of one unit is added to all.
    end = np.floor(total * ratio + rng.random((n, 1))).astype(np.int64)
    inside = total * ratio < ring.units[:, None]
    last = inside.sum(1)
    start = np.pad(end[:, :-1], ((0, 0), (1, 0)))
    row = np.arange(n)
    rest = ring.units / ratio - (total[row, last] - count[row, last])
    rest = np.floor(rest + rng.random(n)).astype(np.int64)
    # Rounding may leave it no unit: the context before gives one, if it can.
    full = np.flatnonzero((rest > 0) & (start[row, last] == ring.units))
    before = last[full] - 1
    spare = (end - start)[full, before] > count[full, before]
    full, before = full[spare], before[spare]
    end[full, before] -= 1
    start[full, before + 1] -= 1
    end[row, last] = ring.units
    count[row, last] = np.minimum(rest, ring.units - start[row, last])
    inside[row, last] = count[row, last] > 0
    where = np.flatnonzero(inside)
    start, end, count = (x.reshape(-1)[where] for x in (start, end, count))
    return _Contexts(where // columns, start, end - start, count)


def _place(ring, contexts: _Contexts, options: BuildOptions, rng) -> np.ndarray:
    """Where in `ring.place` the spans begin, int64 [c]."""
    position = ring.first[contexts.ring] + contexts.begin
    choices = contexts.length - contexts.count + 1
    spread = np.zeros(len(position), np.int64)
    padded = np.pad(ring.place, (0, int(choices.max(initial=0))))
    tables = []
    for which in _by_width(choices, options):
        width, row = int(choices[which].max()), np.arange(len(which))
        offset = np.arange(width, dtype=np.int32)
        runs = sliding_window_view(padded, width)
        start = position[which]
        # Pieces of each choice.
        key = runs[start + contexts.count[which]] - runs[start]
        beyond = offset >= choices[which].astype(np.int32)[:, None]
        np.copyto(key, np.iinfo(np.int16).max, where=beyond)
        key *= width
        key += offset
        key.sort(axis=1)
        last = key[row, choices[which] - 1]
        spread[which] = last // width - key[:, 0] // width
        tables.append((which, row, key, width))
    rank = (_even(contexts.ring, spread, rng) * choices).astype(np.int64)
    for which, row, key, width in tables:
        position[which] += key[row, rank[which]] % width
    return position


def _by_width(choices: np.ndarray, options: BuildOptions):
    """Numbers of the contexts in groups with about as many choices each."""
    lengths, _ = span_lengths(options)
    ratio = options.mask_alpha / options.mask_beta
    widths = np.unique(np.ceil(ratio * lengths).astype(np.int64) - lengths + 1)
    group = np.searchsorted(widths, choices)
    groups = [np.flatnonzero(group == g) for g in range(len(widths) + 1)]
    return [which for which in groups if len(which)]


def _even(ring: np.ndarray, spread: np.ndarray, rng) -> np.ndarray:
    """Uniform numbers float64 [c] that are spread evenly inside each row.

    Contexts in the order of `spread`, how much their choices differ, get the
    van der Corput sequence, turned by one random number per row: any few that
    follow each other cover 0..1 evenly, so alike contexts balance each other.
    `ring` int64 [c] holds ascending row numbers; `spread` int64 [c] is the
    pieces of the longest choice less the shortest.
    """
    count = np.bincount(ring)
    first = np.cumsum(count) - count
    key = (ring << 16) + (np.iinfo(np.int16).max - spread)
    key = (key << 24) + np.arange(len(ring))  # one order on every machine
    key.sort()
    turn = rng.random(len(count))
    number = np.arange(len(ring)) - first[ring]  # rows are sorted already
    value = _van_der_corput(int(count.max(initial=0)))[number] + turn[ring]
    result = np.empty(len(ring))
    result[key & ((1 << 24) - 1)] = value % 1.0
    return result


@functools.lru_cache(64)
def _van_der_corput(n: int) -> np.ndarray:
    """0, 1/2, 1/4, 3/4, 1/8, ...: float64 [n]."""
    left, value, weight = np.arange(n), np.zeros(n), 0.5
    while left.any():
        value += weight * (left & 1)
        left, weight = left >> 1, weight / 2
    return value


def _cut_surplus(ring, contexts, first_unit, start, stop, num_predict, rng):
    """The ends of spans where rows have at most `num_predict` targets."""
    of = contexts.ring
    total = np.bincount(of, stop - start, len(ring.row))
    index = np.flatnonzero((total > num_predict)[of])
    if not len(index):
        return stop
    index = index[np.lexsort((rng.random(len(index)), of[index]))]
    size, row = (stop - start)[index], of[index]
    before = np.cumsum(size) - size
    first = np.flatnonzero(np.diff(row, prepend=-1))
    before -= np.repeat(before[first], np.diff(np.append(first, len(row))))
    room = np.clip(num_predict - before, 0, None)
    count = contexts.count[index].copy()
    stop = stop.copy()
    long = np.flatnonzero(size > room)
    while len(long):
        count[long] -= 1
        at = index[long]
        stop[at] = ring.place[first_unit[at] + count[long]]
        long = long[(stop[at] - start[at]) > room[long]]
    return stop


def _mark(ring, of, start, stop, starts, segments: Segments, reuse_len: int):
    """Spans of text tokens -> bool [n, T]."""
    n, seq_len = starts.shape
    kept = np.flatnonzero(stop > start)
    of = of[kept]
    length, row = ring.length[of], ring.row[of]
    start, stop = (x[kept] + ring.turn[of] for x in (start, stop))
    over = np.where(start >= length, length, 0)
    start, stop = start - over, stop - over
    split = np.flatnonzero(stop > length)  # goes on at the row's start
    tail = stop[split] - length[split]
    stop[split] = length[split]
    row = np.concatenate([row, row[split]])
    start = np.concatenate([start, np.zeros_like(tail)])
    stop = np.concatenate([stop, tail])
    # Text tokens from B on stand behind SEP.
    b = (segments.reuse + segments.a_len)[row]
    at = row * (seq_len + 1)
    edges = np.zeros(n * (seq_len + 1) + 1, np.int8)
    edges[at + start + (start >= b)] = 1
    edges[at + stop + (stop > b)] -= 1
    inside = np.cumsum(edges[:-1], dtype=np.int8).view(bool)
    is_target = inside.reshape(n, seq_len + 1)[:, :seq_len]
    second = np.flatnonzero(segments.a_len > 0)
    is_target[second, reuse_len + segments.a_len[second]] = False
    return is_target
