"""Rows of the table, and the vector that stands for what is predicted."""

import numpy as np
import tensorflow as tf

from modeling.encoders.xlnet.embeddings import Embeddings

IDS = np.array([[3, 0, 8], [1, 1, 5]])


def made(**kwargs):
    layer = Embeddings(9, 4, **kwargs)
    layer.build(None)
    rng = np.random.default_rng(0)
    for variable in layer.trainable_variables:
        variable.assign(rng.normal(size=variable.shape))
    return layer


def test_ids_are_rows_and_queries_start_alike():
    layer = made()
    np.testing.assert_array_equal(layer(IDS), layer.lookup_table.numpy()[IDS])
    start = layer.query_rows(2, 3).numpy()
    assert start.shape == (2, 3, 4)
    assert (start == layer.mask_emb.numpy()[0, 0]).all()


def test_the_mask_vector_stands_where_it_is_asked_for():
    layer = made()
    where = np.array([[0, 1, 0], [1, 0, 0]])
    found = layer.mixed_rows(layer(IDS), where).numpy()
    rows = layer.lookup_table.numpy()[IDS]
    for place, is_mask in np.ndenumerate(where):
        wanted = layer.mask_emb.numpy()[0, 0] if is_mask else rows[place]
        np.testing.assert_array_equal(found[place], wanted)


def test_rows_have_the_compute_type_and_the_table_a_gradient():
    layer = made(dtype="mixed_bfloat16")
    with tf.GradientTape() as tape:
        rows = layer(IDS)
        loss = tf.reduce_sum(tf.cast(rows, tf.float32))
    assert rows.dtype == tf.bfloat16
    found = tf.convert_to_tensor(tape.gradient(loss, layer.lookup_table))
    counts = np.bincount(IDS.reshape(-1), minlength=9)
    np.testing.assert_array_equal(found, np.repeat(counts[:, None], 4, 1))
