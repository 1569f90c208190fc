"""Cutting random streams into segments: coverage, filling, Bs."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from common.contract.symbols import SymbolIds
from data.pretraining.sampling import segments as sg
from data.pretraining.sampling.token_stream import Stream


def random_stream(n, documents, sentences, rng):
    docs = np.unique(np.append(0, rng.integers(0, n, documents)))
    sents = np.unique(np.append(docs, rng.integers(0, n, sentences)))
    words = rng.random(n) < 0.6
    words[sents] = True
    ids = np.arange(n, dtype=np.int32) + 10  # every token is its place
    return Stream(ids, sents, docs, words)


def layout_text(ids):
    """Positions that hold tokens of `random_stream`."""
    return ids >= 10


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    n=st.integers(1, 400),
    documents=st.integers(0, 12),
    sentences=st.integers(0, 60),
    reuse_len=st.integers(0, 20),
    second=st.integers(5, 30),
    seed=st.integers(0, 10**6),
)
def test_invariants(n, documents, sentences, reuse_len, second, seed):
    rng = np.random.default_rng(seed)
    stream = random_stream(n, documents, sentences, rng)
    seq_len = reuse_len + second
    cut = sg.make_segments(stream, n, seq_len, reuse_len, rng)
    # Every token in one reuse part (or A), in order.
    size = cut.reuse if reuse_len else cut.a_len
    covered = np.concatenate(
        [np.arange(s, s + k) for s, k in zip(cut.start, size, strict=True)]
    )
    assert covered.tolist() == list(range(n))
    window = second - 3
    total = cut.a_len + cut.b_len
    assert (total <= window).all()
    assert (cut.a == cut.start + reuse_len).all()
    real = cut.a_len > 0
    assert ((cut.a + cut.a_len)[real] <= n).all()
    assert ((cut.b + cut.b_len)[real] <= n).all()
    # B follows A, or shares no document with it.
    follows = cut.label == 1
    assert (cut.b == cut.a + cut.a_len)[follows].all()
    document = np.searchsorted(stream.documents, np.arange(n), "right")
    for i in np.flatnonzero(real & ~follows & (cut.b_len > 0)):
        a = document[cut.a[i] : cut.a[i] + cut.a_len[i]]
        b = document[cut.b[i] : cut.b[i] + cut.b_len[i]]
        assert not set(a) & set(b)
        assert cut.b[i] in stream.sentences
    # Positions: what the layout calls real is what was gathered.
    lanes = sg.pad_to_lanes(cut, 4)
    assert len(lanes) % 4 == 0
    ids = sg.gather(stream, lanes, seq_len, reuse_len, SymbolIds())
    starts = sg.gather_words(stream, lanes, seq_len, reuse_len)
    found = sg.places(lanes, seq_len, reuse_len)
    plain = np.full(ids.shape, -1)
    plain.reshape(-1)[found.position] = found.token
    rows = sg.text_rows(np.arange(n), -1, lanes, seq_len, reuse_len)
    assert (rows == plain).all()
    text = layout_text(ids)
    assert (starts[text] == stream.words[ids[text] - 10]).all()
    assert not starts[~text].any()
    layout = sg.layout(
        lanes.reuse, lanes.a_len, lanes.b_len, seq_len, reuse_len
    )
    assert ((ids != SymbolIds().pad) == layout.input_mask).all()
    rows = np.flatnonzero(lanes.a_len > 0)
    wanted = (SymbolIds().sep, SymbolIds().sep, SymbolIds().cls)
    assert (ids[rows[:, None], layout.functional[rows]] == wanted).all()
    assert layout.input_mask.sum() == (
        lanes.reuse.sum()
        + lanes.a_len.sum()
        + lanes.b_len.sum()
        + 3 * len(rows)
    )


def test_long_texts_fill_their_segments():
    rng = np.random.default_rng(0)
    stream = random_stream(50000, 60, 2500, rng)
    cut = sg.make_segments(stream, 50000, 128, 64, rng)
    full = cut.a_len + cut.b_len == 128 - 64 - 3
    assert full[:-3].all()
    assert 0.45 < cut.label.mean() < 0.55
    ends = (cut.a + cut.a_len)[cut.a_len > 0]
    assert np.isin(ends[:-3], stream.sentences).mean() > 0.9
    words = np.flatnonzero(stream.words)
    assert np.isin(ends[:-3], words).all()
    # Bs come from everywhere.
    places = cut.b[cut.label == 0]
    assert (
        np.abs(np.histogram(places, 5, (0, 50000))[0] / len(places) - 0.2).max()
        < 0.1
    )


def test_foreign_text_serves_as_b_only():
    rng = np.random.default_rng(0)
    own = random_stream(300, 0, 20, rng)
    both = own.joined(random_stream(500, 4, 30, rng))
    cut = sg.make_segments(both, 300, 40, 16, rng)
    assert cut.reuse.sum() == 300
    assert ((cut.a + cut.a_len) <= 300)[cut.a_len > 0].all()
    random = (cut.label == 0) & (cut.b_len > 0)
    assert random.any() and (cut.b[random] >= 300).all()
