"""What follows a sublayer: bias, dropout, residual, LayerNorm, in this order."""

import numpy as np
import pytest
import tensorflow as tf

from modeling.ops import dropout
from modeling.ops.context import LayerContext
from modeling.ops.normalization import EPSILON, LayerNorm

ROWS, D, F = 7, 6, 9
SEED = np.asarray([3, 4], np.int32)  # a tensor would start TensorFlow here

CONTEXT = LayerContext(training=True, seed=SEED)


def random(*shape):
    return np.random.default_rng(2).normal(size=shape).astype(np.float32)


def normalized(x, gamma, beta):
    x = np.asarray(x, np.float64)
    centred = x - x.mean(-1, keepdims=True)
    scale = np.sqrt((centred**2).mean(-1, keepdims=True) + EPSILON)
    return centred / scale * gamma + beta


@pytest.mark.parametrize("with_bias", [True, False])
def test_the_residual_is_added_after_dropout_and_the_bias_before(with_bias):
    x, residual = random(2, ROWS, D)
    gamma, beta, bias = random(3, D)
    layer = LayerNorm()
    layer.build([None, D])
    layer.gamma.assign(gamma)
    layer.beta.assign(beta)
    found = layer.after_residual(
        tf.constant(x),
        tf.constant(residual),
        tf.constant(bias) if with_bias else None,
        CONTEXT,
        dropout.CONTENT.inner,
        0.4,
    )
    seed = dropout.site_seed(tf.constant(SEED), dropout.CONTENT.inner)
    kept = dropout.masked(tf.ones([ROWS, D]), seed, 0.4).numpy()  # 0 or 1/0.6
    assert 0 < (kept == 0).mean() < 1
    biased = x + bias if with_bias else x
    wanted = normalized(biased * kept + residual, gamma, beta)
    np.testing.assert_allclose(found, wanted, atol=1e-5)
