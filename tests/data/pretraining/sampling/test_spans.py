"""Span sampling: rate, boundaries, lengths, capacity; and drawn orders."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.pretraining.sampling import permutation, record_arrays, spans
from data.pretraining.sampling.segments import Segments
from data.pretraining.sampling.token_stream import Stream, split_long_words


def text(n, rate, seed=0):
    words = np.random.default_rng(seed).random(n) < rate
    words[0] = True
    return split_long_words(words)


def draw(words, length, count, options, seed=1):
    """Targets of `count` windows: bool [count, length], and the spans."""
    rng = np.random.default_rng(seed)
    begin = rng.integers(0, len(words) - length, count)
    found = spans.draw_spans(
        spans.Words(words), begin, begin + length, options, rng
    )
    window, start, stop = found
    edges = np.zeros((count, length + 1), int)
    np.add.at(edges, (window, start - begin[window]), 1)
    np.add.at(edges, (window, stop - begin[window]), -1)
    return edges.cumsum(1)[:, :-1], begin, found


@pytest.mark.parametrize("unit", ["word", "token", "single"])
@pytest.mark.parametrize("lengths", ["inverse", "uniform"])
@pytest.mark.parametrize("alpha", [6, 7])
def test_rate_is_flat_by_position(unit, lengths, alpha):
    count, length = 12000, 40
    words = text(50000, 0.6)
    if unit != "word":
        words = np.ones_like(words)
    options = spans.SpanOptions(alpha, 1, unit, lengths)
    hot, _, _ = draw(words, length, count, options)
    assert hot.max() == 1  # no overlap
    rate = hot.mean(0)
    # Positions are not independent of each other, windows are.
    error = 5 * np.sqrt(1 / alpha * (1 - 1 / alpha) / count)
    assert np.abs(rate - 1 / alpha).max() < error


def test_spans_are_whole_words_but_at_a_windows_edge():
    words = text(20000, 0.5)
    _, begin, (window, start, stop) = draw(words, 60, 2000, spans.SpanOptions())
    at_begin = start == begin[window]
    at_end = stop == begin[window] + 60
    assert (words[start] | at_begin).all()
    assert (words[np.minimum(stop, len(words) - 1)] | at_end).all()
    inner = ~at_begin & ~at_end
    sums = np.concatenate([[0], np.cumsum(words)])
    counts = (sums[stop] - sums[start])[inner]
    assert counts.min() == 1 and counts.max() == 5
    share = np.bincount(counts)[1:] / len(counts)
    wanted = 1 / np.arange(1, 6)
    # A long span of long words may meet the window's edge: not exact.
    assert np.abs(share - wanted / wanted.sum()).max() < 0.03


def test_a_span_lies_uniformly_in_its_context():
    """One-piece words: contexts of 6 m tile the text, the span is inside."""
    words = np.ones(4000, bool)
    options = spans.SpanOptions(max_span=3)
    _, _, (window, start, stop) = draw(words, 3000, 40, options)
    gaps = []
    for w in range(40):
        mine = window == w
        order = np.argsort(start[mine])
        s, e = start[mine][order], stop[mine][order]
        gaps.append(s[1:] - e[:-1])
        size = (e - s)[1:-1]
        assert abs((e - s).sum() / 3000 - 1 / 6) < 0.01
        assert set(size) <= {1, 2, 3}
    gaps = np.concatenate(gaps)
    assert gaps.min() == 0 and gaps.max() <= 30


def test_long_words_count_as_single_pieces():
    words = np.zeros(30, bool)
    words[[0, 9, 12, 20]] = True  # of 9, 3, 8 and 10 pieces
    found = split_long_words(words)
    assert found[:9].all() and found[20:].all()
    assert np.flatnonzero(found[9:20]).tolist() == [0, 3]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    sizes=st.lists(
        st.lists(st.integers(1, 9), max_size=8), min_size=1, max_size=6
    ),
    capacity=st.integers(0, 20),
    seed=st.integers(0, 9),
)
def test_surplus_spans_are_dropped_whole(sizes, capacity, seed):
    group = np.repeat(np.arange(len(sizes)), [len(x) for x in sizes])
    flat = np.asarray([i for x in sizes for i in x], np.int64)
    keep = spans.drop_surplus(
        group.astype(np.int64),
        flat,
        np.full(len(sizes), capacity),
        np.random.default_rng(seed),
    )
    total = np.bincount(group, flat, len(sizes))
    left = np.bincount(group, flat * keep, len(sizes))
    assert (left <= capacity).all()
    assert (left == total)[total <= capacity].all()


def test_surplus_is_dropped_anywhere():
    n = 4000
    keep = spans.drop_surplus(
        np.repeat(np.arange(n), 5),
        np.ones(5 * n, np.int64),
        np.full(n, 3),
        np.random.default_rng(0),
    )
    rate = keep.reshape(n, 5).mean(0)
    assert np.abs(rate - 0.6).max() < 0.04


def test_each_part_has_its_share_of_the_slots():
    assert spans.part_capacity(85, 512, 384) == (63, 22)
    assert spans.part_capacity(85, 512, 0) == (0, 85)
    assert spans.part_capacity(7, 10, 5) == (3, 4)


def test_the_parts_of_every_segment_keep_to_their_own_slots():
    rng = np.random.default_rng(4)
    n, seq_len, reuse_len, slots = 30, 40, 24, 9
    options = spans.SpanOptions(mask_alpha=2, span_unit="token")
    shape = record_arrays.Shape(
        seq_len, reuse_len, slots, 0, False, False, "context", options
    )
    words = spans.Words(np.ones(n * seq_len, bool))
    start = np.arange(n, dtype=np.int64) * seq_len
    full = np.full(n, reuse_len, np.int64)
    a_len, b_len = np.full(n, 6, np.int64), np.full(n, 7, np.int64)
    a = start + reuse_len
    zeros = np.zeros(n, np.int64)
    cut = Segments(start, full, a, a_len, a + a_len, b_len, zeros, zeros)
    found = record_arrays.draw_context_targets(words, cut, shape, rng)
    # Half of the tokens would be targets: 12 and 6; slots are 5 and 4.
    assert spans.part_capacity(slots, seq_len, reuse_len) == (5, 4)
    first, second = found[:, :reuse_len].sum(1), found[:, reuse_len:].sum(1)
    assert first.max() == 5 and second.max() == 4
    assert first.mean() > 3 and second.mean() > 2


def test_a_reversed_stream_keeps_its_words():
    words = np.asarray([1, 0, 1, 1, 0, 0, 1], bool)
    stream = Stream(np.arange(7), np.asarray([0, 3]), np.asarray([0, 6]), words)
    back = stream.reversed()
    assert back.ids.tolist() == [6, 5, 4, 3, 2, 1, 0]
    assert np.flatnonzero(back.words).tolist() == [0, 1, 4, 5]
    assert back.sentences.tolist() == [0, 4]
    assert back.documents.tolist() == [0, 1]
    again = back.reversed()
    assert (again.words == words).all()
    assert again.sentences.tolist() == [0, 3]


# --- Orders -------------------------------------------------------------------


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    seq_len=st.integers(2, 20),
    cut=st.floats(0, 0.9),
    perm_size=st.integers(0, 6),
    seed=st.integers(0, 999),
)
def test_ranks(seq_len, cut, perm_size, seed):
    rng = np.random.default_rng(seed)
    reuse_len = int(cut * seq_len)
    ordered = rng.random((4, seq_len)) < 0.5
    ranks = permutation.draw_ranks(ordered, reuse_len, rng, perm_size)
    for row, hot in zip(ranks, ordered, strict=True):
        for low, part in (
            (0, slice(0, reuse_len)),
            (reuse_len + 1, slice(reuse_len, seq_len)),
        ):
            inside = row[part][hot[part]]
            assert sorted(inside) == list(range(low, low + len(inside)))
            assert (row[part][~hot[part]] == low - 1).all()
            if perm_size:  # chunks come in order
                chunk = np.flatnonzero(hot[part]) // perm_size
                assert (np.diff(chunk[np.argsort(inside)]) >= 0).all()


def test_every_order_is_as_likely():
    ordered = np.ones((24000, 3), bool)
    ranks = permutation.draw_ranks(ordered, 0, np.random.default_rng(0))
    _, counts = np.unique(ranks, axis=0, return_counts=True)
    assert len(counts) == 6
    assert np.abs(counts / 4000 - 1).max() < 0.08


def test_mask_of_a_hand_written_order():
    # Three context tokens, targets at 1 and 3; 3 comes first.
    ranks = np.asarray([[-1, 1, -1, 0, -1]])
    target = np.asarray([[False, True, False, True, False]])
    found = permutation.perm_mask(ranks, target)[0].astype(int)
    assert found.tolist() == [
        [0, 1, 0, 1, 0],
        [0, 1, 0, 0, 0],
        [0, 1, 0, 1, 0],
        [0, 1, 0, 1, 0],
        [0, 1, 0, 1, 0],
    ]
