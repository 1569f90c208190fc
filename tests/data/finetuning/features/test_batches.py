"""Batches of several weighted sets: shares, and a pure function of the step."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.errors import UserError
from data.finetuning.features import batches
from data.finetuning.features import batches as finetune_batches
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
    size = batches.window_size(49, 8, mixture)
    sorted_rows = [
        batches.training_batch(lengths, 8, 3, step, True, mixture)
        for step in range(size, 2 * size)
    ]
    window = whole[8 * size : 8 * 2 * size]
    assert sorted(np.concatenate(sorted_rows)) == sorted(window)


def test_batches_by_length_repeat_no_example_of_a_small_set():
    """One with a large weight is read through many times beside the other."""
    mixture = Mixture((1000, 10), (1.0, 50.0))
    lengths = np.arange(1010) % 50 + 1
    rows = [
        batches.training_batch(lengths, 16, 0, step, True, mixture)
        for step in range(100)
    ]
    # Twice where a batch begins in one round and ends in the next.
    assert max(np.bincount(row).max() for row in rows) == 2


def test_a_share_of_nothing_is_refused():
    with pytest.raises(UserError, match="set 2 would be less than one"):
        Mixture((10000, 1), (1.0, 1.0)).counts()


@pytest.mark.long
@settings(max_examples=12, deadline=None)
@given(st.integers(1, 12), st.integers(1, 9), st.integers(0, 5), st.booleans())
def test_every_epoch_holds_every_example_once(count, batch, seed, by_length):
    """Whole windows of the endless list are whole epochs, whatever the batch."""
    lengths = np.arange(count) % 7 + 1
    size = finetune_batches.window_size(count, batch)
    steps = size * count
    seen = [
        finetune_batches.training_batch(lengths, batch, seed, step, by_length)
        for step in range(steps)
    ]
    counts = np.bincount(np.concatenate(seen), minlength=count)
    assert (counts == size * batch).all()


@pytest.mark.parametrize(
    "count, batch, size", [(40, 5, 8), (43, 5, 8), (3, 5, 1)]
)
def test_batches_by_length_of_a_small_set_are_of_one_epoch(count, batch, size):
    """Two passes over all examples, none of which is beside itself."""
    assert finetune_batches.window_size(count, batch) == size
    assert finetune_batches.window_size(1000, 2) == finetune_batches.WINDOW
    lengths = np.random.default_rng(0).permutation(count) + 1
    rows = [
        finetune_batches.training_batch(lengths, batch, 0, step, True)
        for step in range(-(-2 * count // batch))
    ]
    assert set(np.concatenate(rows)) == set(range(count))
    if count % batch == 0:
        assert all(len(set(row)) == batch for row in rows)
        assert max(np.ptp(lengths[row]) for row in rows) == batch - 1


def test_every_epoch_and_seed_has_an_order_of_its_own():
    def epoch(number, seed=3):
        begin = number * 20
        return finetune_batches.endless_slice(20, seed, begin, begin + 20)

    orders = [epoch(0), epoch(1), epoch(2), epoch(0, seed=4)]
    assert len({tuple(order) for order in orders}) == 4
    assert all(sorted(order) == list(range(20)) for order in orders)


def test_batches_by_length_waste_less_and_differ_by_seed():
    rng = np.random.default_rng(0)
    lengths = rng.integers(4, 100, 500)

    def padding(by_length, seed=1):
        total = 0
        for step in range(finetune_batches.WINDOW):
            rows = finetune_batches.training_batch(
                lengths, 8, seed, step, by_length
            )
            total += 8 * lengths[rows].max() - lengths[rows].sum()
        return total

    assert padding(True) < 0.2 * padding(False)
    a, b = (
        finetune_batches.training_batch(lengths, 8, seed, 3) for seed in (1, 2)
    )
    assert a.tolist() != b.tolist()


def test_evaluation_order_and_buckets():
    lengths = np.array([5, 2, 9, 4])
    plain = finetune_batches.evaluation_batches(lengths, 3)
    assert [x.tolist() for x in plain] == [[0, 1, 2], [3]]
    sorted_ = finetune_batches.evaluation_batches(lengths, 3, True)
    assert [x.tolist() for x in sorted_] == [[1, 3, 0], [2]]
    assert finetune_batches.bucket_lengths("", 48) == (48,)
    lengths = finetune_batches.bucket_lengths("auto", 100)
    assert lengths == (16, 32, 48, 64, 96, 100)
    assert finetune_batches.bucket_lengths("8,20", 16) == (8, 16)
    assert finetune_batches.fitting_length(9, (8, 16)) == 16
    assert finetune_batches.fitting_length(8, (8, 16)) == 8
    for text in ("8,4", "x", "0,3", "8,8"):
        with pytest.raises(UserError, match="--length_buckets"):
            finetune_batches.bucket_lengths(text, 16)
