"""What a call tells its sublayers: sites of each stream, no seed without training."""

import numpy as np
import tensorflow as tf

from modeling.ops import dropout
from modeling.ops.context import INFERENCE, LayerContext


def test_dropout_is_off_unless_it_trains_with_a_seed():
    seed = tf.constant([3, 4])
    assert INFERENCE.site_seed(1) is None
    assert LayerContext(False, seed).site_seed(1) is None
    assert LayerContext(True, None).site_seed(1) is None
    found = LayerContext(True, seed).site_seed(5)
    np.testing.assert_array_equal(found, [3, 9])


def test_the_query_stream_has_sites_of_its_own():
    context = LayerContext(True, tf.constant([3, 4]), texts=6)
    query = context.for_query_stream()
    assert (context.sites, query.sites) == (dropout.CONTENT, dropout.QUERY)
    assert not set(dropout.CONTENT) & set(dropout.QUERY)
    assert query.texts == 6 and query.seed is context.seed
    assert query.training
