"""Rows of replicas and micro-batches; padding of a ragged batch."""

import numpy as np
import pytest
import tensorflow as tf

from common.errors import UserError
from training.step.batch_split import BatchSplit, distribute, fill


def test_worked_rows_of_the_docstring():
    np.testing.assert_array_equal(
        BatchSplit(8, 2, 1, 2).order(), [[0, 1, 4, 5], [2, 3, 6, 7]]
    )
    np.testing.assert_array_equal(
        BatchSplit(8, 2, 2, 2).order(), [[0, 4, 1, 5], [2, 6, 3, 7]]
    )
    np.testing.assert_array_equal(
        BatchSplit(6, 3, 1, 1).order(), [[0, 1], [2, 3], [4, 5]]
    )


@pytest.mark.parametrize("replicas", [1, 2, 3, 4])
@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("groups", [1, 2])
def test_every_row_once_and_directions_in_halves(replicas, steps, groups):
    rows = replicas * steps * groups * 5
    split = BatchSplit(rows, replicas, steps, groups)
    order = split.order()
    assert split.micro_batch_rows == 5 * groups
    assert sorted(order.reshape(-1)) == list(range(rows))
    for replica in order:
        for micro_batch in replica.reshape(steps, groups, -1):
            for group, members in enumerate(micro_batch):
                assert set(members * groups // rows) == {group}


def test_a_batch_that_does_not_divide_says_what_would_do():
    with pytest.raises(UserError, match="^--train_batch_size=15 .* take 12"):
        BatchSplit(15, 2, 3, 2)
    with pytest.raises(UserError, match="^--eval_batch_size=7 .* take 6"):
        BatchSplit(7, 2, flag="eval_batch_size")


def test_filling_keeps_rows_and_gives_a_static_shape():
    x = tf.ones([3, 2], tf.int32)
    batch = fill({"x": x, "example_weight": tf.ones([3])}, 5)
    assert batch["x"].shape == (5, 2)
    assert batch["example_weight"].numpy().tolist() == [1, 1, 1, 0, 0]


class Processes:
    """Stands for a strategy of 4 replicas in two processes."""

    def distribute_datasets_from_function(self, make):
        return [
            list(make(tf.distribute.InputContext(2, process, 4)))
            for process in range(2)
        ]


@pytest.mark.parametrize("by_rows", [True, False])
def test_every_process_has_the_rows_of_its_replicas(by_rows):
    read = []

    def input_fn(params):
        rows = params.pop("rows")
        assert params == {"batch_size": 8, "start_step": 5}
        read.append(rows)
        rows = tf.constant(rows) if by_rows else tf.range(8)
        steps = rows[tf.newaxis] + tf.constant([[0], [100]])
        return tf.data.Dataset.from_tensor_slices({"x": steps})

    found, spec = distribute(
        Processes(), input_fn, BatchSplit(8, 4, 1, 2), start_step=5
    )
    assert read == [(0, 4, 1, 5), (2, 6, 3, 7)]
    assert spec["x"].shape == (4 if by_rows else 8,)
    # Two batches, two replicas each: a forward and a backward row.
    first, second = [[e["x"].numpy().tolist() for e in p] for p in found]
    assert first == [[0, 4], [1, 5], [100, 104], [101, 105]]
    assert second == [[2, 6], [3, 7], [102, 106], [103, 107]]
