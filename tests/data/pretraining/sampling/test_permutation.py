"""Drawn orders; masks and target slots by hand."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from data.pretraining.sampling import permutation


def test_mask_of_a_worked_order():
    # Factorization order 3 2 4 1 (from 1), every token a target; then the
    # last two tokens as context, which see each other and no target.
    ranks = np.array([[3, 1, 0, 2], [1, 0, -1, -1]])
    is_target = np.array([[1, 1, 1, 1], [1, 1, 0, 0]], bool)
    seen = ~permutation.perm_mask(ranks, is_target)
    assert seen.astype(int).tolist() == [
        [[0, 1, 1, 1], [0, 0, 1, 0], [0, 0, 0, 0], [0, 1, 1, 0]],
        [[0, 1, 1, 1], [0, 0, 1, 1], [0, 0, 1, 1], [0, 0, 1, 1]],
    ]


def test_a_context_token_in_the_order_sees_itself():
    ranks = np.array([[1, 0, 2]])
    is_target = np.array([[0, 1, 1]], bool)
    seen = ~permutation.perm_mask(ranks, is_target)[0]
    assert seen.astype(int).tolist() == [[1, 1, 0], [0, 0, 0], [1, 1, 0]]


def test_slots_are_filled_from_the_left_in_the_order_of_the_text():
    is_target = np.array([[0, 1, 0, 1, 1], [0, 0, 0, 0, 0], [1, 0, 0, 0, 1]])
    positions, counts = permutation.positions_of(is_target.astype(bool), 4)
    assert positions.tolist() == [[1, 3, 4, 0], [0, 0, 0, 0], [0, 4, 0, 0]]
    assert counts.tolist() == [3, 0, 2]
    mapping = permutation.target_mapping(positions, counts, 5)
    assert mapping.shape == (3, 4, 5)
    assert np.argwhere(mapping).tolist() == [
        [0, 0, 1],
        [0, 1, 3],
        [0, 2, 4],
        [2, 0, 0],
        [2, 1, 4],
    ]


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


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    rows=st.integers(0, 5),
    seq_len=st.integers(1, 40),
    cut=st.floats(0, 1),
    perm_size=st.integers(0, 6),
    share=st.floats(0, 1),
    seed=st.integers(0, 999),
)
def test_ranks_are_those_of_the_plain_form(
    rows, seq_len, cut, perm_size, share, seed
):
    reuse_len = int(cut * seq_len)
    ordered = np.random.default_rng(seed).random((rows, seq_len)) < share
    rng = np.random.default_rng(seed)
    ranks = permutation.draw_ranks(ordered, reuse_len, rng, perm_size)
    chance = iter(np.random.default_rng(seed).random(int(ordered.sum())))
    for row, hot in zip(ranks, ordered, strict=True):
        keys = {}
        for i in np.flatnonzero(hot).tolist():
            second = i >= reuse_len
            chunk = (i - reuse_len * second) // perm_size if perm_size else 0
            keys[i] = (second, chunk, next(chance))
        wanted = np.where(np.arange(seq_len) < reuse_len, -1, reuse_len)
        for second in (False, True):
            order = sorted(i for i in keys if keys[i][0] == second)
            for rank, i in enumerate(sorted(order, key=keys.get)):
                wanted[i] = rank + second * (reuse_len + 1)
        assert row.tolist() == wanted.tolist()


@settings(max_examples=40, deadline=None, derandomize=True)
@given(rows=st.integers(0, 6), columns=st.integers(1, 9), seed=st.integers())
def test_row_counts(rows, columns, seed):
    hot = np.random.default_rng(abs(seed)).random((rows, columns)) < 0.4
    counts = permutation.row_counts(np.flatnonzero(hot), hot.shape)
    assert counts.tolist() == hot.sum(1).tolist()
