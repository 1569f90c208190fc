"""Memory: the original's update and lengths."""

import numpy as np
import pytest
import tensorflow as tf

from modeling.attention import memory
from tests.modeling.golden.golden_util import matching


@pytest.mark.shared
def test_update_memory(units):
    current = tf.transpose(units["cache_mem/curr"], [1, 0, 2])
    old = tf.transpose(units["cache_mem/prev"], [1, 0, 2])
    pattern = r"cache_mem/ml(\d+)_rl(None|\d)_prev([01])"
    for match, expected in matching(units, pattern):
        mem_len, reuse = int(match.group(1)), match.group(2)
        reuse = None if reuse == "None" else int(reuse)
        previous = old if match.group(3) == "1" else None
        new = memory.update_memory(current, previous, mem_len, reuse)
        np.testing.assert_array_equal(tf.transpose(new, [1, 0, 2]), expected)
        length = memory.update_length(
            None, 2, 4 if previous is not None else 0, 5, mem_len, reuse
        )
        np.testing.assert_array_equal(length, [new.shape[1]] * 2)
    assert memory.update_memory(current, old, None) is None
    assert memory.update_memory(current, old, 0) is None
