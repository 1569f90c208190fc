"""Masks and target slots by hand; how orders are drawn: test_spans.py."""

import numpy as np

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
