"""A row has a pair where a CLS stands at a real token."""

import tensorflow as tf

from common.contract import pairs
from common.contract.symbols import SEGMENT_A, SEGMENT_B, SEGMENT_CLS


def test_a_cls_of_padding_is_no_pair():
    a, b, cls = SEGMENT_A, SEGMENT_B, SEGMENT_CLS
    batch = {
        "segment_ids": tf.constant(
            [[a, a, b, cls], [a, a, a, a], [a, a, a, cls]]
        ),
        "input_mask": tf.constant([[1, 1, 1, 1], [1, 1, 1, 0], [1, 1, 1, 0]]),
    }
    found = pairs.has_pair(batch)
    assert found.dtype == tf.float32
    assert found.numpy().tolist() == [1.0, 0.0, 0.0]
