"""Masks: the original's, and hand-written rows."""

import numpy as np
import pytest
import tensorflow as tf

from modeling.attention import masks
from tests.modeling.golden.golden_util import matching


@pytest.mark.shared
def test_causal_mask(units):
    for match, expected in matching(units, r"create_mask/q(\d)_m(\d)_sl([01])"):
        q, m, same = (int(g) for g in match.groups())
        mask = masks.causal_mask(q, m, bool(same))
        np.testing.assert_array_equal(tf.cast(mask, tf.float32), expected)


def test_same_length_gives_every_position_as_many_keys():
    mask = masks.causal_mask(5, 3, True).numpy()
    np.testing.assert_array_equal((~mask).sum(1), [4] * 5)


def test_mask_polarity_row_by_row():
    """The worked rows of `masks`, order 3 2 4 1."""
    ranks = tf.constant([[3, 1, 0, 2]])
    blocked = masks.rank_mask(ranks, tf.ones([1, 4]))
    made = masks.attention_masks(
        4, 0, perm_mask=blocked, target_positions=None, two_streams=True
    )
    query = [[0, 1, 1, 1], [0, 0, 1, 0], [0, 0, 0, 0], [0, 1, 1, 0]]
    np.testing.assert_array_equal(made.query[0] == 0, query)
    np.testing.assert_array_equal(
        made.content[0] == 0, np.array(query) + np.eye(4)
    )
    np.testing.assert_array_equal(made.query_visible, [[1, 1, 0, 1]])
