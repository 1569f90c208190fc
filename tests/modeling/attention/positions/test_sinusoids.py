"""Tables of positions: the original's."""

import numpy as np
import pytest
import tensorflow as tf

from modeling.attention.positions import sinusoids
from tests.modeling.golden import golden_util
from tests.modeling.golden.golden_util import matching


@pytest.mark.shared
def test_position_table(units):
    pattern = r"relpos/q(\d+)_k(\d+)_(bi|uni)_bd([01])_cl(-?\d+)_b(None|4)"
    for match, expected in matching(units, pattern):
        q, k, kind, bi_data, clamp, _ = match.groups()
        bi_data = bi_data == "1"
        table = sinusoids.sinusoid_table(
            int(q), int(k), 6, kind, int(clamp), bi_data
        )
        # The original repeats each direction for its half of the batch.
        repeat = expected.shape[1] // table.shape[0]
        table = tf.repeat(tf.transpose(table, [1, 0, 2]), repeat, axis=1)
        golden_util.assert_close(table, expected, match.group())


def test_distances_are_distinct_in_float32():
    table = sinusoids.sinusoid_table(512, 896, 64).numpy()[0]
    assert table.dtype == np.float32
    assert len(np.unique(table, axis=0)) == 1408
