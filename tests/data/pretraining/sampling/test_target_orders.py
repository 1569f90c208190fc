"""Other orders of stored targets, by hand and by the masks they stand for."""

import numpy as np
import tensorflow as tf

from data.pretraining.sampling import permutation, target_orders

REUSE = 2
BATCH = {
    "ranks": np.array([[-1, 0, 3, 4, 2], [1, 0, 2, 2, 3]], np.int32),
    "target_positions": np.array([[1, 3, 2], [0, 4, 0]], np.int32),
    "target_weights": np.array([[1, 1, 1], [1, 1, 0]], np.float32),
    "perm_mask": np.zeros([2, 5, 5], np.float32),
    "target_mapping": np.zeros([2, 3, 5], np.float32),
}
IS_TARGET = np.array([[0, 1, 1, 1, 0], [1, 0, 0, 0, 1]], bool)


def test_without_order_targets_see_the_context_of_their_part():
    found = target_orders.reorder(BATCH, "none", REUSE)
    assert found["ranks"].numpy().tolist() == [
        [-1, 0, 3, 3, 2],
        [0, -1, 2, 2, 3],
    ]
    hidden = permutation.perm_mask(found["ranks"].numpy(), IS_TARGET)
    # Row 0: target 2 sees the context 0, 4 and the reuse part's target 1.
    assert np.flatnonzero(~hidden[0, 2]).tolist() == [0, 1, 4]
    # The reuse part never sees the second part.
    assert hidden[0, 0, 2:].all() and hidden[0, 1, 2:].all()


def test_forward_is_the_order_of_the_text():
    found = target_orders.reorder(BATCH, "forward", REUSE)
    assert found["ranks"].numpy().tolist() == [[0, 1, 2, 3, 4]] * 2
    assert not {"perm_mask", "target_mapping"} & set(found)
    assert "perm_mask" in BATCH


def test_a_random_order_is_the_stored_one():
    def input_fn(params):
        return tf.data.Dataset.from_tensors(BATCH).repeat(params["steps"])

    assert target_orders.ordered_batches(input_fn, "random", 2) is input_fn
    make = target_orders.ordered_batches(input_fn, "forward", REUSE)
    batches = list(make({"steps": 3}).as_numpy_iterator())
    assert len(batches) == 3
    assert batches[2]["ranks"].tolist() == [[0, 1, 2, 3, 4]] * 2
