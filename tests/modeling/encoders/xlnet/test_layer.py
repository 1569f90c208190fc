"""Both streams of a layer: one set of weights, one set of keys."""

import numpy as np
import tensorflow as tf

from modeling import XLNetConfig
from modeling.attention.attend import Stream, Streams
from modeling.attention.positions import sinusoids
from modeling.encoders.xlnet.layer import TransformerLayer

CONFIG = XLNetConfig(
    vocab_size=9,
    d_model=6,
    n_layer=1,
    n_head=3,
    d_head=4,
    d_inner=8,
    dropout=0.0,
    dropatt=0.0,
)
H = np.random.default_rng(1).normal(size=(2, 5, 6)).astype(np.float32)


def filled():
    layer = TransformerLayer(CONFIG)
    layer.build([None, None, 6])
    rng = np.random.default_rng(0)
    for variable in layer.trainable_variables:
        variable.assign(rng.normal(size=variable.shape) * 0.4)
    return layer


def shared(keys):
    return (sinusoids.sinusoid_table(5, keys, 6),)


def test_a_query_that_starts_as_the_content_is_the_content():
    layer, stream = filled(), Stream()
    h, g = layer(
        tf.constant(H),
        g=tf.constant(H),
        shared=shared(5),
        streams=Streams(stream, stream),
    )
    np.testing.assert_allclose(g, h, atol=1e-5)
    alone, none = layer(tf.constant(H), shared=shared(5))
    np.testing.assert_allclose(alone, h, atol=1e-5)
    assert none is None


def test_a_query_changes_no_content():
    layer = filled()
    streams = Streams(Stream(), Stream())
    results = [
        layer(
            tf.constant(H), g=tf.constant(g), shared=shared(5), streams=streams
        )
        for g in (H, -3.0 * H)
    ]
    np.testing.assert_array_equal(results[0][0], results[1][0])
    assert np.abs(results[0][1] - results[1][1]).max() > 0.1


def test_keys_are_memory_and_content():
    layer = filled()
    memory = np.random.default_rng(2).normal(size=(2, 3, 6)).astype(np.float32)
    table = shared(8)
    seen, _ = layer(tf.constant(H), memory=tf.constant(memory), shared=table)
    hidden = np.zeros([1, 1, 8], np.float32)
    hidden[..., :3] = -1e30
    blind, _ = layer(
        tf.constant(H),
        memory=tf.constant(memory),
        shared=table,
        streams=Streams(Stream(mask=tf.constant(hidden))),
    )
    bare, _ = layer(tf.constant(H), shared=shared(5))
    np.testing.assert_allclose(blind, bare, atol=1e-4)
    assert np.abs(seen - bare).max() > 0.05
    assert len(layer.variable_paths()) == len(layer.trainable_variables)
