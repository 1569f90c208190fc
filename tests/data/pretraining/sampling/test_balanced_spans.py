"""The default sampler: equal chances, a budget, few slots beyond the mean."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.pretraining.options import BuildOptions, default_slots
from data.pretraining.sampling import balanced_spans
from data.pretraining.sampling import segments as sg
from data.pretraining.sampling.token_stream import Stream, split_long_words


@dataclasses.dataclass(frozen=True)
class SpanOptions:
    """The fields of `BuildOptions` that spans are drawn by."""

    mask_alpha: int = 6
    mask_beta: int = 1
    span_unit: str = "word"
    span_lengths: str = "inverse"
    max_span: int = 5


def text(n, seed=0, mix=(0.5, 0.25, 0.12, 0.06, 0.04, 0.03)):
    """Words of 1, 2, ... pieces in sentences of 2 to 30 words."""
    rng = np.random.default_rng(seed)
    sizes = rng.choice(np.arange(1, len(mix) + 1), n, p=mix)
    starts = np.cumsum(sizes) - sizes
    first = np.cumsum(rng.integers(2, 31, n))
    sentences = np.append(0, starts[first[first < n]])
    words = np.zeros(int(sizes.sum()), bool)
    words[starts] = True
    ids = np.arange(len(words), dtype=np.int32)
    documents = sentences[::20]
    return Stream(ids, sentences, documents, split_long_words(words))


def draw(stream, seq_len, reuse_len, options, slots=None, seed=0):
    """Segments of a text, their places and targets."""
    rng = np.random.default_rng(seed)
    cut = sg.make_segments(stream, len(stream), seq_len, reuse_len, rng)
    token_places = sg.places(cut, seq_len, reuse_len)
    starts = sg.gather_words(stream, cut, seq_len, reuse_len)
    targets = balanced_spans.draw_targets(
        starts, cut, reuse_len, slots or seq_len, options, rng
    )
    return cut, token_places, targets


def tally(stream, seq_len, reuse_len, rounds, options=None, slots=None):
    """How often every token was a target, and how often it was there."""
    hit, seen = np.zeros(len(stream)), np.zeros(len(stream))
    for seed in range(rounds):
        cut, token_places, targets = draw(
            stream, seq_len, reuse_len, options or SpanOptions(), slots,
            seed,
        )  # fmt: skip
        inside = targets.reshape(-1)[token_places.position]
        assert inside.sum() == targets.sum()  # no SEP, CLS or padding
        hit += np.bincount(token_places.token, inside, len(stream))
        seen += np.bincount(token_places.token, minlength=len(stream))
    return hit, seen


def rate(hit, seen, where):
    assert hit[where].sum() > 20000  # a deviation of 3 % is no chance
    return hit[where].sum() / seen[where].sum() * 6


@pytest.mark.long
@pytest.mark.parametrize("seq_len", [32, 96, 256])
def test_the_rate_is_flat_over_words_and_sentences(seq_len):
    stream = text(20000)
    slots = default_slots(BuildOptions("a", "b", "c", seq_len, seq_len // 2))
    hit, seen = tally(stream, seq_len, seq_len // 2, 90, slots=slots)
    assert hit.sum() / seen.sum() * 6 == pytest.approx(1, abs=0.01)
    starts = np.flatnonzero(stream.words)
    sizes = np.diff(np.append(starts, len(stream)))
    of_word = np.repeat(sizes, sizes)
    for pieces in (1, 2, 3, 4, 5, 6):
        assert abs(rate(hit, seen, of_word == pieces) - 1) < 0.03, pieces
    length = np.diff(np.append(stream.sentences, len(stream)))
    place = np.arange(len(stream)) - np.repeat(stream.sentences, length)
    left = np.repeat(length, length) - 1 - place
    for k in range(3):
        assert abs(rate(hit, seen, place == k) - 1) < 0.03, k
        assert abs(rate(hit, seen, left == k) - 1) < 0.03, k


def test_the_rate_is_flat_over_positions():
    stream = text(30000, 1)
    hit, seen = np.zeros(64), np.zeros(64)
    for seed in range(24):
        _, token_places, targets = draw(
            stream, 64, 24, SpanOptions(), seed=seed
        )
        there = np.zeros(targets.size, bool)
        there[token_places.position] = True
        hit += targets.sum(0)
        seen += there.reshape(targets.shape).sum(0)
    error = np.sqrt(5 / 36 / np.maximum(seen, 1)) * 2  # spans: twice binomial
    off = np.abs(hit / np.maximum(seen, 1) - 1 / 6) / error
    assert off[seen > 10000].max() < 5
    assert off[:3].max() < 4 and off[21:27].max() < 4


@pytest.mark.parametrize("alpha,beta", [(6, 1), (7, 1), (20, 3), (5, 2)])
def test_words_of_targets_are_the_budget(alpha, beta):
    stream = text(6000, 2)
    options = SpanOptions(alpha, beta)
    cut, token_places, targets = draw(stream, 128, 64, options)
    starts = sg.gather_words(stream, cut, 128, 64)
    starts[:, 64] |= cut.a_len > 0
    starts[:, 0] |= cut.reuse > 0
    rows = np.flatnonzero(cut.b_len)
    starts[rows, 65 + cut.a_len[rows]] = True
    words = starts.sum(1)
    chosen = (starts & targets).sum(1)
    off = chosen - words * beta / alpha
    assert np.abs(off).max() < 2 if alpha % beta else np.abs(off).max() < 1
    assert abs(off.mean()) < 0.1
    # Words are targets as a whole.
    word = np.cumsum(starts, axis=1) + np.arange(len(cut))[:, None] * 1000
    inside = np.zeros(targets.size, bool)
    inside[token_places.position] = True
    word, flat = word.reshape(-1)[inside], targets.reshape(-1)[inside]
    _, of = np.unique(word, return_inverse=True)
    share = np.bincount(of, flat) / np.bincount(of)
    assert set(np.unique(share)) == {0.0, 1.0}


def test_the_end_of_a_short_ring_has_its_share():
    """Also where the contexts before it are rounded up to that end."""
    stream = text(200_000, 3, mix=(1.0,))
    options = SpanOptions(20, 3, max_span=1)
    _, token_places, targets = draw(stream, 10, 0, options)
    wanted = len(token_places.token) * 3 / 20
    assert targets.sum() / wanted == pytest.approx(1.0, abs=0.01)


MIXES = {
    "one piece": (1.0,),
    "short": (0.75, 0.18, 0.05, 0.02),
    "long": (0.3, 0.2, 0.15, 0.12, 0.09, 0.06, 0.05, 0.03),
    "rare long": (0.96, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.04),
}


@pytest.mark.parametrize("seq_len", [32, 48, 128, 512])
@pytest.mark.parametrize("mix", MIXES)
def test_default_slots_lose_at_most_one_percent(seq_len, mix):
    stream = text(20000 if seq_len < 512 else 60000, 3, MIXES[mix])
    options = BuildOptions("a", "b", "c", seq_len, seq_len // 2)
    slots = default_slots(options)
    hit, seen = tally(stream, seq_len, seq_len // 2, 2, slots=slots)
    rate = hit.sum() / seen.sum() * 6
    assert 0.985 < rate < 1.008  # 1 % of loss and half a per cent of chance
    full = tally(stream, seq_len, seq_len // 2, 2)[0].sum()
    assert hit.sum() > 0.99 * full
    assert slots <= seq_len / 6 + 9


def test_single_tokens_fill_the_budget_exactly():
    stream = text(4000, 4)
    stream = Stream(
        stream.ids, stream.sentences, stream.documents,
        np.ones(len(stream), bool),
    )  # fmt: skip
    options = SpanOptions(span_unit="single")
    cut, _, targets = draw(stream, 99, 48, options)
    full = cut.a_len + cut.b_len == 48
    assert (targets[full].sum(1) == 16).all()
    assert full.sum() > 50


@settings(max_examples=120, deadline=None, derandomize=True)
@given(
    words=st.integers(1, 120),
    seq_len=st.integers(8, 70),
    share=st.floats(0, 0.6),
    alpha=st.integers(2, 9),
    slots=st.integers(1, 12),
    seed=st.integers(0, 999),
)
def test_any_text_and_capacity(words, seq_len, share, alpha, slots, seed):
    stream = text(words, seed)
    reuse_len = int(share * (seq_len - 5))
    options = SpanOptions(alpha, 1)
    cut, token_places, targets = draw(
        stream, seq_len, reuse_len, options, slots, seed
    )
    lanes = sg.pad_to_lanes(cut, 3)
    assert targets.shape == (len(cut), seq_len)
    assert (targets.sum(1) <= slots).all()
    inside = np.zeros(targets.size, bool)
    inside[token_places.position] = True
    assert not targets.reshape(-1)[~inside].any()
    empty = sg.gather_words(stream, lanes, seq_len, reuse_len)
    again = balanced_spans.draw_targets(
        empty, lanes, reuse_len, slots, options, np.random.default_rng(seed)
    )
    assert not again[len(cut) :].any()


def test_surplus_is_cut_between_words():
    stream = text(8000, 5)
    cut, token_places, targets = draw(stream, 64, 32, SpanOptions(), 6)
    assert targets.sum(1).max() == 6
    starts = sg.gather_words(stream, cut, 64, 32)
    after = targets[:, 1:31] & ~starts[:, 1:31]  # not the first piece
    assert targets[:, :30][after].all()


def test_long_spans_are_as_rare_as_the_options_say():
    lengths, shares = balanced_spans.span_lengths(SpanOptions(max_span=3))
    assert lengths.tolist() == [1, 2, 3]
    assert shares.tolist() == pytest.approx([6 / 11, 3 / 11, 2 / 11])
    options = SpanOptions(max_span=3, span_lengths="uniform")
    alike = balanced_spans.span_lengths(options)[1]
    assert alike.tolist() == pytest.approx([1 / 3] * 3)
    options = SpanOptions(span_unit="single")
    assert balanced_spans.span_lengths(options)[0].tolist() == [1]


def _plain_ring(starts, segments, reuse_len, rng):
    """Places of each row's units from the drawn one on, unit by unit."""
    rows = []
    chance = iter(rng.random(int((starts.any(1)).sum())))
    for row, hot in enumerate(starts):
        places = np.flatnonzero(hot)
        if not len(places):
            continue
        sep = reuse_len + segments.a_len[row]
        tokens = [int(p - (p > sep)) for p in places]
        length = int(
            segments.reuse[row] + segments.a_len[row] + segments.b_len[row]
        )
        turn = int(next(chance) * len(tokens))
        turned = tokens[turn:] + [t + length for t in tokens[:turn]]
        rows.append([t - tokens[turn] for t in turned] + [length])
    return rows


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    words=st.integers(1, 300),
    seq_len=st.integers(8, 70),
    share=st.floats(0, 0.6),
    seed=st.integers(0, 999),
)
def test_the_ring_is_that_of_the_plain_form(words, seq_len, share, seed):
    stream = text(words, seed)
    reuse_len = int(share * (seq_len - 5))
    cut, *_ = draw(stream, seq_len, reuse_len, SpanOptions(), 9, seed)
    cut = sg.pad_to_lanes(cut, 3)
    starts = sg.gather_words(stream, cut, seq_len, reuse_len)
    rng = np.random.default_rng(seed)
    ring = balanced_spans._turn(starts, cut, reuse_len, rng)
    wanted = _plain_ring(starts, cut, reuse_len, np.random.default_rng(seed))
    assert ring.units.tolist() == [len(row) - 1 for row in wanted]
    assert ring.place.tolist() == [t for row in wanted for t in row]
    assert ring.length.tolist() == [row[-1] for row in wanted]


@pytest.mark.parametrize(
    "alpha, beta, longest", [(6, 1, 5), (5, 2, 3), (2, 1, 1)]
)
def test_spans_begin_where_the_plain_form_has_them(alpha, beta, longest):
    stream = text(3000, 4)
    options = SpanOptions(alpha, beta, max_span=longest)
    rng = np.random.default_rng(1)
    cut = sg.make_segments(stream, len(stream), 96, 40, rng)
    starts = sg.gather_words(stream, cut, 96, 40)
    ring = balanced_spans._turn(starts, cut, 40, rng)
    contexts = balanced_spans._tile(ring, options, rng)
    begins = balanced_spans._place(
        ring, contexts, options, np.random.default_rng(2)
    )
    place, spread, tables = ring.place, [], []
    for row, begin, length, count in zip(
        contexts.ring, contexts.begin, contexts.length, contexts.count,
        strict=True,
    ):  # fmt: skip
        at = int(ring.first[row] + begin)
        choices = range(length - count + 1)
        pieces = [int(place[at + c + count] - place[at + c]) for c in choices]
        tables.append((at, sorted(choices, key=lambda c: (pieces[c], c))))
        spread.append(max(pieces) - min(pieces))
    chance = balanced_spans._even(
        contexts.ring, np.array(spread), np.random.default_rng(2)
    )
    wanted = [
        at + order[int(u * len(order))]
        for u, (at, order) in zip(chance, tables, strict=True)
    ]
    assert begins.tolist() == wanted
