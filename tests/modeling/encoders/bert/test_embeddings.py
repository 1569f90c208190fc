"""Words, segments and positions, summed and normalised, by hand."""

import numpy as np
import pytest
import tensorflow as tf

from modeling.encoders.bert.config import BertConfig
from modeling.encoders.bert.embeddings import BertEmbeddings

CONFIG = BertConfig(9, 6, 1, 3, 8, max_position_embeddings=7, dropout=0.5)
IDS = np.array([[3, 8, 1, 0], [2, 2, 5, 7]])


@pytest.fixture
def layer():
    made = BertEmbeddings(CONFIG)
    made.build(None)
    rng = np.random.default_rng(0)
    for variable in made.trainable_variables:
        variable.assign(rng.normal(size=variable.shape))
    return made


def wanted(layer, segments, positions):
    rows = layer.lookup_table.numpy()[IDS]
    rows = rows + layer.segment_table.numpy()[segments]
    rows = rows + layer.position_table.numpy()[positions]
    centred = rows - rows.mean(-1, keepdims=True)
    scale = np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
    gamma, beta = layer.norm.gamma.numpy(), layer.norm.beta.numpy()
    return centred / scale * gamma + beta


def test_the_sum_of_three_tables_is_normalised(layer):
    segments = np.array([[0, 0, 1, 1], [0, 1, 1, 1]])
    places = np.array([[0, 1, 0, 1], [6, 5, 4, 3]])
    found = layer(IDS, segments, places)
    np.testing.assert_allclose(
        found, wanted(layer, segments, places), atol=1e-4
    )
    plain = layer(tf.constant(IDS))
    np.testing.assert_allclose(
        plain, wanted(layer, 0 * IDS, np.arange(4)), atol=1e-4
    )


def test_dropout_is_the_embeddings_own(layer):
    found = layer(IDS, seed=tf.constant([1, 2])).numpy()
    plain = layer(IDS).numpy()
    kept = found != 0
    assert 0.2 < kept.mean() < 0.8
    np.testing.assert_allclose(found[kept], 2.0 * plain[kept], rtol=1e-5)
