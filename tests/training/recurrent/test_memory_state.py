"""Memory by global row: gathered, saved, given out to any replicas and micro-batches."""

import types

import numpy as np
import pytest
import tensorflow as tf

from training.objectives.contract import Memory
from training.recurrent.memory_state import RecurrentMemory, reset_rows
from training.step.batch_split import BatchSplit

LAYERS, SLOTS, DIM = 2, 3, 1
# replicas, accumulation steps, groups -> the global rows of each replica, in its order.
TABLE = {
    (1, 1, 2): [[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]],
    (1, 3, 2): [[0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11]],
    (2, 1, 2): [[0, 1, 2, 6, 7, 8], [3, 4, 5, 9, 10, 11]],
    (2, 3, 2): [[0, 6, 1, 7, 2, 8], [3, 9, 4, 10, 5, 11]],
    (3, 2, 1): [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]],
    (3, 1, 2): [[0, 1, 6, 7], [2, 3, 8, 9], [4, 5, 10, 11]],
    (4, 1, 1): [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]],
}
ROWS = 12


def make(replicas, accumulation_steps, groups):
    strategy = tf.distribute.MirroredStrategy(
        [f"CPU:{i}" for i in range(replicas)],
        tf.distribute.ReductionToOneDevice(),
    )
    objective = types.SimpleNamespace(
        memory_len=SLOTS,
        config=types.SimpleNamespace(d_model=DIM, n_layer=LAYERS),
    )
    model = types.SimpleNamespace(compute_dtype="float32")
    split = BatchSplit(ROWS, replicas, accumulation_steps, groups)
    memory = RecurrentMemory(objective, model, strategy, split)
    return strategy, memory


def contents(row):
    """Layer 0, layer 1 and the length of a global row."""
    return [100.0 + row, 200.0 + row, row % (SLOTS + 1)]


def fill_replicas(strategy, memory, table):
    """Writes in replica context what each of the replica's rows holds."""
    values = np.asarray([[contents(r) for r in rows] for rows in table])

    def one():
        context = tf.distribute.get_replica_context()
        mine = tf.gather(values, context.replica_id_in_sync_group)  # [b, 3]
        layers = [
            tf.tile(mine[:, i, np.newaxis, np.newaxis], [1, SLOTS, DIM])
            for i in range(LAYERS)
        ]
        memory.write(Memory(tuple(layers), tf.cast(mine[:, 2], tf.int32)))

    strategy.run(tf.function(one, autograph=False))


def on_replicas(strategy, memory):
    """[replicas][rows] of (layer 0, layer 1, length)."""

    def read():
        found = memory.read()
        return *found.layers, found.length

    local = strategy.experimental_local_results
    first, second, length = (
        [x.numpy() for x in local(value)]
        for value in strategy.run(tf.function(read, autograph=False))
    )
    return [
        [[a[r, 0, 0], b[r, -1, 0], n[r]] for r in range(len(n))]
        for a, b, n in zip(first, second, length, strict=True)
    ]


@pytest.mark.long
@pytest.mark.parametrize("shape", TABLE, ids=str)
def test_taken_by_global_row_and_given_out_again(shape):
    strategy, memory = make(*shape)
    fill_replicas(strategy, memory, TABLE[shape])
    assert memory.own_rows().reshape(shape[0], -1).tolist() == TABLE[shape]
    rows = memory.to_host()
    assert rows.numbers.tolist() == list(range(ROWS))
    for column, values in enumerate([*rows.layers, rows.length]):
        found = values.reshape(ROWS, -1)
        wanted = [contents(row)[column] for row in range(ROWS)]
        np.testing.assert_array_equal(found[:, 0], wanted)
        np.testing.assert_array_equal(found[:, -1], wanted)
    memory.clear()
    memory.from_host(rows)
    wanted = [[contents(row) for row in rows] for rows in TABLE[shape]]
    assert on_replicas(strategy, memory) == wanted


@pytest.mark.parametrize(
    "before, after",
    [
        ((4, 1, 1), (3, 2, 1)),
        ((2, 3, 2), (3, 1, 2)),
        ((3, 1, 2), (2, 3, 2)),
        ((2, 1, 2), (1, 3, 2)),
    ],
    ids=str,
)
def test_another_number_of_replicas_and_parts_takes_its_rows(before, after):
    strategy, memory = make(*before)
    fill_replicas(strategy, memory, TABLE[before])
    other_strategy, other = make(*after)
    other.from_host(memory.to_host())
    wanted = [[contents(row) for row in rows] for rows in TABLE[after]]
    assert on_replicas(other_strategy, other) == wanted


def test_clearing_leaves_no_valid_slot():
    strategy, memory = make(2, 3, 2)
    fill_replicas(strategy, memory, TABLE[2, 3, 2])
    memory.clear()
    for rows in on_replicas(strategy, memory):
        assert [row[2] for row in rows] == [0] * 6


def test_a_reset_row_loses_its_memory_and_no_other_does():
    memory = Memory((tf.ones([3, SLOTS, DIM]),), tf.constant([3, 2, 1]))
    reset = reset_rows(memory, tf.constant([False, True, False]))
    assert reset.length.numpy().tolist() == [3, 0, 1]
    # What is not valid is masked: the values may stay.
    assert reset.layers[0] is memory.layers[0]
