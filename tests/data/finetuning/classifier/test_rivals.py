"""Rows that compete, by hand."""

import numpy as np

from data.finetuning.classifier import rivals
from data.finetuning.features import table as finetune_table
from data.finetuning.features.pair_features import Sequence1D


def test_pairs_are_of_one_group():
    keys = ["q", "r", "q", "r", "q", "s"]
    right = [True, False, False, False, False, True]
    assert rivals.pairs(keys, right) == [
        *((0, 2), (0, 4)),  # every right one with every wrong one
        *((1, 1), (3, 3)),  # nothing is right
        (5, 5),  # alone
    ]


def test_paired_rows_are_the_rows():
    rows = [
        Sequence1D(list(range(10 * i, 10 * i + i)), [i] * i) for i in (1, 3, 2)
    ]
    table = finetune_table.from_sequences(
        rows,
        {"label_ids": np.array([0, 1, 1], np.int32)},
        token_columns={"ranks": np.array([5, 6, 7, 8, 9, 10], np.int32)},
    )
    made = rivals.paired(table, [(2, 0), (1, 1)])
    assert made.num_examples == 2 and made.num_rows == 4
    batch = made.batch(np.array([0, 1]), 3)
    assert batch["input_ids"].tolist() == [
        [[0, 20, 21], [0, 0, 10]],
        [[30, 31, 32], [30, 31, 32]],
    ]
    assert batch["ranks"].tolist()[0] == [[-1, 9, 10], [-1, -1, 5]]
    assert batch["label_ids"].tolist() == [1, 1]
    assert batch[rivals.RIVAL].tolist() == [1.0, 0.0]


def test_margins_choose_one_of_a_group():
    keys = ["a", "b", "a", "c", "a", "b"]
    found = rivals.margins([1.0, 3.0, 4.0, 9.0, 2.5, 3.0], keys)
    np.testing.assert_allclose(found[[0, 2, 4]], [-3.0, 1.5, -1.5])
    assert np.isnan(found[3])
    assert found[1] > 0 > found[5]  # equal scores: the first
