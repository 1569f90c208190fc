"""Rows of replicas and parts, and the padding of a ragged batch."""

import numpy as np
import pytest
import tensorflow as tf

from common.errors import UserError
from training.batch_split import fill, row_order


def test_worked_rows_of_the_docstring():
    np.testing.assert_array_equal(
        row_order(8, 2, 1, 2), [[0, 1, 4, 5], [2, 3, 6, 7]]
    )
    np.testing.assert_array_equal(
        row_order(8, 2, 2, 2), [[0, 4, 1, 5], [2, 6, 3, 7]]
    )
    np.testing.assert_array_equal(
        row_order(6, 3, 1, 1), [[0, 1], [2, 3], [4, 5]]
    )


@pytest.mark.parametrize("replicas", [1, 2, 3, 4])
@pytest.mark.parametrize("parts", [1, 2, 3])
@pytest.mark.parametrize("groups", [1, 2])
def test_every_row_once_and_directions_in_halves(replicas, parts, groups):
    rows = replicas * parts * groups * 5
    order = row_order(rows, replicas, parts, groups)
    assert sorted(order.reshape(-1)) == list(range(rows))
    for replica in order:
        for part in replica.reshape(parts, groups, -1):
            for group, members in enumerate(part):
                assert set(members * groups // rows) == {group}


def test_a_batch_that_does_not_divide_says_what_would_do():
    with pytest.raises(UserError, match="take 12"):
        row_order(15, 2, 3, 2)


def test_filling_keeps_rows_and_gives_a_static_shape():
    x = tf.ones([3, 2], tf.int32)
    batch = fill({"x": x, "example_weight": tf.ones([3])}, 5)
    assert batch["x"].shape == (5, 2)
    assert batch["example_weight"].numpy().tolist() == [1, 1, 1, 0, 0]
