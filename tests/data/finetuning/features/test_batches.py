"""Batches of several weighted sets: shares, and a pure function of the step."""

import numpy as np
import pytest

from common.errors import UserError
from data.finetuning.features import batches
from data.finetuning.features.batches import BLOCK, Mixture


def test_every_block_holds_the_exact_shares():
    mixture = Mixture((300, 50, 7), (1.0, 2.0, 10.0))
    wanted = np.array([300, 100, 70]) * BLOCK / 470
    assert np.abs(mixture.counts() - wanted).max() < 1
    entries = mixture.entries(5, 0, 3 * BLOCK)
    kinds = np.searchsorted([300, 350], entries, side="right")
    for block in kinds.reshape(3, BLOCK):
        assert np.bincount(block).tolist() == mixture.counts().tolist()


def test_each_set_is_read_in_whole_rounds():
    mixture = Mixture((300, 50), (1.0, 1.0))
    entries = mixture.entries(1, 0, 7 * BLOCK)
    for low, high in ((0, 300), (300, 350)):
        mine = entries[(entries >= low) & (entries < high)]
        rounds = mine[: len(mine) // (high - low) * (high - low)]
        for part in rounds.reshape(-1, high - low):
            assert sorted(part) == list(range(low, high))


def test_any_part_of_the_list_is_that_part():
    mixture = Mixture((40, 9), (1.0, 0.5))
    whole = mixture.entries(3, 0, 2500)
    for begin, end in ((0, 1), (999, 1001), (1000, 2000), (1234, 2345)):
        np.testing.assert_array_equal(
            mixture.entries(3, begin, end), whole[begin:end]
        )
    lengths = np.random.default_rng(0).integers(1, 64, 49)
    for by_length in (False, True):
        later = batches.training_batch(lengths, 8, 3, 70, by_length, mixture)
        assert later.shape == (8,) and later.max() < 49
    plain = [
        batches.training_batch(lengths, 8, 3, step, False, mixture)
        for step in range(20)
    ]
    np.testing.assert_array_equal(np.concatenate(plain), whole[:160])
    sorted_rows = [
        batches.training_batch(lengths, 8, 3, step, True, mixture)
        for step in range(batches.WINDOW)
    ]
    assert sorted(np.concatenate(sorted_rows)) == sorted(
        whole[: 8 * batches.WINDOW]
    )


def test_a_share_of_nothing_is_refused():
    with pytest.raises(UserError, match="set 2 would be less than one"):
        Mixture((10000, 1), (1.0, 1.0)).counts()
