"""One layer of BERT: attention by hand, masks, and the same layer twice."""

import numpy as np
import pytest
import tensorflow as tf

from modeling.attention.plain import mask_of
from modeling.encoders.bert.config import BertConfig
from modeling.encoders.bert.layer import BertAttention, BertLayer
from modeling.ops.context import LayerContext

CONFIG = BertConfig(9, 6, 1, 3, 8, dropout=0.0, dropatt=0.0)
X = np.random.default_rng(1).normal(size=(2, 4, 6)).astype(np.float32)
MASK = np.array([[1, 1, 1, 1], [1, 1, 0, 0]])


def filled(layer):
    layer.build([None, None, 6])
    rng = np.random.default_rng(0)
    for variable in layer.trainable_variables:
        variable.assign(rng.normal(size=variable.shape) * 0.5)
    return layer


def test_attention_is_the_papers():
    layer = filled(BertAttention(CONFIG))
    found = layer(tf.constant(X), mask_of(MASK))
    w = {name: kernel.numpy() for name, kernel in layer.kernels.items()}
    b = {name: bias.numpy() for name, bias in layer.biases.items()}
    out = np.zeros_like(X) + b["o"]
    for row in range(2):
        real = MASK[row] > 0
        for n in range(3):
            q, k, v = (X[row] @ w[i][:, n] + b[i][n] for i in "qkv")
            scores = q @ k[real].T / np.sqrt(2.0)
            p = np.exp(scores - scores.max(-1, keepdims=True))
            p /= p.sum(-1, keepdims=True)
            out[row] += p @ v[real] @ w["o"][:, n].T
    wanted = layer.norm(tf.constant(X + out))
    np.testing.assert_allclose(found, wanted, atol=1e-4)


def test_padding_changes_no_real_row():
    layer = filled(BertLayer(CONFIG))
    other = X.copy()
    other[1, 2:] = 9.0
    a, b = (layer(tf.constant(x), mask_of(MASK)).numpy() for x in (X, other))
    np.testing.assert_allclose(a[0], b[0], atol=1e-6)
    np.testing.assert_allclose(a[1, :2], b[1, :2], atol=1e-5)
    assert np.abs(a[1, 2:] - b[1, 2:]).max() > 0.1


def test_a_layer_may_be_applied_twice():
    layer = filled(BertLayer(CONFIG))
    with tf.GradientTape() as tape:
        twice = layer(layer(tf.constant(X)))
        loss = tf.reduce_sum(twice**3)
    gradients = tape.gradient(loss, layer.trainable_variables)
    assert all(g is not None for g in gradients)
    assert len(layer.variable_paths()) == len(layer.trainable_variables)


@pytest.mark.parametrize("rate", ["dropout", "dropatt"])
def test_every_rate_has_an_effect(rate):
    plain = filled(BertLayer(CONFIG))
    noisy = filled(BertLayer(CONFIG.replace(**{rate: 0.5})))
    context = LayerContext(True, tf.constant([3, 4]))
    a = plain(tf.constant(X), context=context)
    b = noisy(tf.constant(X), context=context)
    assert np.abs(a - b).max() > 0.05
