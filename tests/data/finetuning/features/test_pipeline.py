"""Batches of the input pipeline follow the contract."""

import numpy as np
import pytest

from common.errors import UserError
from data.finetuning.features import batches as finetune_batches
from data.finetuning.features import pipeline as finetune_pipeline
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


def test_input_fn_yields_the_contract():
    pytest.importorskip("tensorflow")
    params = {"batch_size": 2, "start_step": 5}
    make = finetune_pipeline.make_input_fn
    train = iter(make(table(), 8, True, seed=3)(params))
    batch = next(train)
    wanted = finetune_batches.training_batch(table().lengths(), 2, 3, 5)
    assert batch["example_index"].numpy().tolist() == wanted.tolist()
    assert batch["input_ids"].shape == (2, 8)
    dataset = make(table(), 8, False, buckets=(4, 8), names=())(params)
    assert dataset.element_spec["input_ids"].shape.as_list() == [2, None]
    shapes, indices = [], []
    for batch in dataset:
        assert "label_ids" not in batch
        shapes.append(batch["input_ids"].shape[1])
        indices += batch["example_index"].numpy().tolist()
    assert (shapes, indices) == ([4, 8], [0, 2, 1, -1])
    with pytest.raises(UserError, match="no examples"):
        make(finetune_table.from_sequences([]), 8, False)
