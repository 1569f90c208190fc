"""The feed-forward block and its activation."""

import numpy as np
import pytest
import tensorflow as tf

from modeling.ops import dropout, feed_forward
from modeling.ops.context import LayerContext
from modeling.ops.feed_forward import FeedForward, gelu
from modeling.ops.normalization import EPSILON
from tests.modeling.golden import golden_util


@pytest.mark.shared
def test_gelu(units):
    golden_util.assert_close(
        feed_forward.gelu(units["gelu/x"]), units["gelu/y"]
    )


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


def test_inner_dropout_follows_the_activation():
    layer = FeedForward(D, F, "gelu", dropout_rate=0.0, inner_dropout=0.3)
    layer.build([None, None, D])
    for variable in layer.trainable_variables:
        variable.assign(random(*variable.shape))
    x = random(1, ROWS, D)
    found = layer(tf.constant(x), CONTEXT)
    site = dropout.site_seed(tf.constant(SEED), dropout.CONTENT.inner)
    kept = dropout.masked(tf.ones([ROWS, F]), site, 0.3).numpy()
    assert 0 < (kept == 0).mean() < 1
    inner = gelu(x[0] @ layer.kernel_1.numpy() + layer.bias_1.numpy()).numpy()
    out = inner * kept @ layer.kernel_2.numpy() + layer.bias_2.numpy()
    gamma, beta = layer.norm.gamma.numpy(), layer.norm.beta.numpy()
    wanted = normalized(out + x[0], gamma, beta)
    np.testing.assert_allclose(found[0], wanted, atol=2e-4)
