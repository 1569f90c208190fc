"""Orders as ranks, their masks and target slots, by hand."""

import numpy as np
import pytest

from data import permutation

T, REUSE = 12, 5


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


@pytest.mark.parametrize("perm_size", [0, 2, 3])
def test_each_part_and_chunk_is_shuffled_on_its_own(perm_size):
    rng = np.random.default_rng(5)
    ordered = rng.random((400, T)) < 0.7
    ordered[0] = False
    ranks = permutation.draw_ranks(ordered, REUSE, rng, perm_size)
    sorted_rows = 0
    for row, places in zip(ranks, ordered, strict=True):
        assert (row[:REUSE][~places[:REUSE]] == -1).all()
        assert (row[REUSE:][~places[REUSE:]] == REUSE).all()
        first, second = row[:REUSE][places[:REUSE]], row[REUSE:][places[REUSE:]]
        assert sorted(first) == list(range(len(first)))
        wanted = np.arange(len(second)) + REUSE + 1
        assert sorted(second) == wanted.tolist()
        sorted_rows += (np.diff(second) > 0).all()
        if not perm_size:
            continue
        for part, begin in ((row[:REUSE], 0), (row[REUSE:], REUSE)):
            inside = np.flatnonzero(places[begin : begin + len(part)])
            chunks = inside // perm_size
            by_rank = chunks[np.argsort(part[inside])]
            assert (np.diff(by_rank) >= 0).all()
    assert sorted_rows < 200  # about five of seven tokens are shuffled


def test_every_order_is_as_likely():
    rng = np.random.default_rng(6)
    ranks = permutation.draw_ranks(np.ones((6000, 3), bool), 3, rng)
    _, counts = np.unique(ranks, axis=0, return_counts=True)
    assert len(counts) == 6
    assert counts.min() > 850 and counts.max() < 1150
