"""Feature tables: rows, padding, options, arrays."""

import numpy as np
import pytest

from data.finetuning.features import table as finetune_table
from data.finetuning.features.pair_features import Sequence1D

ROWS = [
    Sequence1D([11, 4, 3], [0, 0, 2]),
    Sequence1D([12, 13, 4, 14, 4, 3], [0, 0, 0, 1, 1, 2]),
    Sequence1D([15, 4, 4, 3], [0, 0, 1, 2]),
]


def table(**kwargs):
    labels = {"label_ids": np.array([2, 0, 1], np.int32)}
    return finetune_table.from_sequences(ROWS, labels, **kwargs)


def test_batch_rows_and_padding_rows():
    batch = table().batch(np.array([1, 0]), 7, 4)
    assert batch["input_ids"].tolist() == [
        [0, 12, 13, 4, 14, 4, 3],
        [0, 0, 0, 0, 11, 4, 3],
        [0, 0, 0, 0, 11, 4, 3],
        [0, 0, 0, 0, 11, 4, 3],
    ]
    assert batch["segment_ids"][0].tolist() == [4, 0, 0, 0, 1, 1, 2]
    assert batch["input_mask"][1].tolist() == [0, 0, 0, 0, 1, 1, 1]
    assert batch["example_weight"].tolist() == [1, 1, 0, 0]
    assert batch["example_index"].tolist() == [1, 0, -1, -1]
    assert batch["label_ids"].tolist() == [0, 2, 2, 2]
    with pytest.raises(ValueError, match="at least 6"):
        table().batch(np.array([1]), 5)


def test_right_padding_and_options():
    right = table(pad_left=False, pad_segment=3).batch(np.array([2]), 5)
    assert right["input_ids"].tolist() == [[15, 4, 4, 3, 0]]
    assert right["segment_ids"].tolist() == [[0, 0, 1, 2, 3]]
    choices = finetune_table.from_sequences(ROWS * 2, num_options=3)
    assert choices.num_examples == 2
    assert choices.lengths().tolist() == [6, 6]
    batch = choices.batch(np.array([1]), 6)
    assert batch["input_ids"].shape == (1, 3, 6)
    assert batch["input_ids"][0, 2].tolist() == [0, 0, 15, 4, 4, 3]


def test_arrays_round_trip():
    again = finetune_table.from_arrays(finetune_table.to_arrays(table()))
    for name, value in table().batch(np.arange(3), 6).items():
        np.testing.assert_array_equal(again.batch(np.arange(3), 6)[name], value)
