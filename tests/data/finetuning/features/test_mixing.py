"""The order of tasks: exact shares, no state, every task's own batches."""

import collections
import itertools

import numpy as np
import pytest

from common.errors import UserError
from data.finetuning.features import batches
from data.finetuning.features.mixing import (
    BLOCK,
    MIXINGS,
    MixedBatches,
    TaskOrder,
)
from data.finetuning.features.pair_features import Sequence1D
from data.finetuning.features.table import from_sequences

SIZES = (4000, 900, 100, 1)


@pytest.mark.parametrize("mixing", MIXINGS)
def test_shares_are_exact_in_every_block(mixing):
    order = TaskOrder(SIZES, mixing, 2.0, seed=5)
    power = {"proportional": 1, "uniform": 0}.get(mixing, 0.5)
    wanted = np.array(SIZES, float) ** power
    np.testing.assert_allclose(order.shares(), wanted / wanted.sum())
    counts = order.counts()
    assert counts.sum() == BLOCK and counts.min() >= 1
    assert np.abs(counts - BLOCK * order.shares()).max() < 1.0
    blocks = [
        [order.at(s) for s in range(b, b + BLOCK)] for b in (0, 2 * BLOCK)
    ]
    for number, block in zip((0, 2), blocks, strict=True):
        for task, count in enumerate(counts):
            # A task's own steps go up by one, from where they stood.
            own = [n for t, n in block if t == task]
            first = number * int(count)
            assert own == list(range(first, first + int(count)))
    assert [t for t, _ in blocks[0]] != [t for t, _ in blocks[1]]


def test_a_temperature_near_0_leaves_one_step_to_small_tasks():
    sizes = (392702, 363846, 634)
    shares = TaskOrder(sizes, "temperature", 0.01).shares()
    assert shares[0] == pytest.approx(
        1.0 / (1.0 + (sizes[1] / sizes[0]) ** 100)
    )
    order = TaskOrder(sizes, "temperature", 0.001)
    assert order.counts().tolist() == [BLOCK - 2, 1, 1]
    assert {order.at(step)[0] for step in range(BLOCK)} == {0, 1, 2}


def test_wrong_orders_are_one_line():
    with pytest.raises(UserError, match="--mixing must be one of"):
        TaskOrder((1, 2), "best")
    with pytest.raises(UserError, match="--mixing_temperature"):
        TaskOrder((1, 2), "temperature", 0.0)


def make_table(rows, longest, labels):
    rng = np.random.default_rng(rows)
    sequences = []
    for _ in range(rows):
        count = int(rng.integers(2, longest + 1))
        sequences.append(Sequence1D([*range(count)], [0] * count))
    return from_sequences(sequences, {"label_ids": labels(rng, rows)})


def test_batches_are_those_of_each_task_alone():
    tables = [
        make_table(30, 5, lambda r, n: r.integers(0, 3, n).astype(np.int32)),
        make_table(11, 8, lambda r, n: r.normal(size=n).astype(np.float32)),
    ]
    order = TaskOrder((30, 11), "sqrt", seed=7)
    mixed = MixedBatches(tables, (5, 8), order, seed=7)
    seen = collections.Counter()
    stream = list(itertools.islice(mixed.endless(4, 0), 12))
    for batch in stream:
        (task,) = set(batch["task"].tolist())
        table = tables[task]
        indices = batches.training_batch(table.lengths(), 4, 7, seen[task])
        seen[task] += 1
        wanted = table.batch(indices, (5, 8)[task], 4)
        for name in ("input_ids", "input_mask", "example_index", "label_ids"):
            np.testing.assert_array_equal(batch[name], wanted[name])
        assert batch["label_ids"].dtype == np.float32
    assert len(seen) == 2
    # From step 9 on the same, without what was before.
    for later, batch in zip(mixed.endless(4, 9), stream[9:], strict=False):
        for name in batch:
            np.testing.assert_array_equal(later[name], batch[name])
    static = MixedBatches(tables, (5, 8), order, 7, static_shapes=True)
    assert {
        b["input_ids"].shape for b in itertools.islice(static.endless(4, 0), 6)
    } == {(4, 8)}
