"""Another kind of attention is a class and a row: Shaw's, as an example."""

from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from modeling import XLNetConfig
from modeling.attention import masks
from modeling.attention.attend import Stream, Streams
from modeling.attention.base import Attention
from modeling.encoders.xlnet import layer as layer_lib
from modeling.ops.context import LayerContext
from tests.modeling.properties.layer_checks import check_layer

CLIP = 2


class ShawKeys(NamedTuple):
    """Keys and values [N, B, K, H], and the keys of distances [T, K, H]."""

    k: tf.Tensor
    v: tf.Tensor
    a: tf.Tensor

    def attend(self, queries, stream, seed=None, rate=0.0):
        scores = tf.matmul(queries, self.k, transpose_b=True)
        scores += tf.einsum("nbqh,qkh->nbqk", queries, self.a)
        scores = tf.cast(scores, tf.float32) * self.k.shape[-1] ** -0.5
        if stream.mask is not None:
            scores += stream.mask
        return tf.matmul(tf.cast(tf.nn.softmax(scores), self.v.dtype), self.v)


@tf_keras.utils.register_keras_serializable("tests")
class ShawAttention(Attention):
    """Learned keys of clipped distances (arXiv 1803.02155, equation 5)."""

    def build_own(self):
        self.distances = self.add("distances", [2 * CLIP + 1, self.d_head])

    def own_variable_paths(self):
        return {"distances": "distances"}

    def keys(self, pieces, query_len, shared, shift="gather", context=None):
        k, v = context.matmul.heads(pieces, [self.kernels[n] for n in "kv"])
        i = tf.range(query_len)[:, tf.newaxis] + tf.shape(k)[2] - query_len
        gap = tf.clip_by_value(tf.range(tf.shape(k)[2]) - i, -CLIP, CLIP)
        rows = tf.cast(self.distances, k.dtype)
        return ShawKeys(k, v, tf.gather(rows, gap + CLIP))


@pytest.fixture(autouse=True)
def row(monkeypatch):
    def make(config, **kwargs):
        sizes = (config.d_model, config.n_head, config.d_head)
        return ShawAttention(*sizes, **kwargs)

    monkeypatch.setitem(layer_lib.ATTENTION, "shaw", make)


CONFIG = XLNetConfig(
    vocab_size=29, d_model=6, n_layer=1, n_head=2, d_head=4, d_inner=8
)


def test_a_layer_with_it(tmp_path):
    x = np.random.default_rng(0).normal(size=[2, 5, 6]).astype(np.float32)
    layer = layer_lib.TransformerLayer(CONFIG, "shaw")
    check_layer(layer, [x], tmp_path, lambda layer, x: layer(x)[0])
    assert layer.variable_paths()["rel_attn/distances"] == "rel_attn/distances"


def test_its_scores_and_masks_and_memory():
    rng = np.random.default_rng(1)
    layer = ShawAttention(6, 2, 4)
    layer.build([None, None, 6])
    for variable in layer.trainable_variables:
        variable.assign(rng.normal(size=variable.shape))
    x = tf.constant(rng.normal(size=[1, 3, 6]), tf.float32)
    memory = tf.constant(rng.normal(size=[1, 2, 6]), tf.float32)
    blocked = masks.causal_mask(3, 2)
    stream = Streams(Stream(masks.bias(blocked)[tf.newaxis])).content
    context = LayerContext()
    keys = layer.keys([memory, x], 3, (), context=context)
    found = layer(x, keys, stream, context)

    w = {name: kernel.numpy() for name, kernel in layer.kernels.items()}
    whole = np.concatenate([memory, x], 1)[0]  # [5, 6]
    out = np.zeros([3, 6])
    for n in range(2):
        for i in range(3):
            q = x.numpy()[0, i] @ w["q"][:, n]
            scores = [
                q
                @ (
                    whole[j] @ w["k"][:, n]
                    + layer.distances.numpy()[np.clip(j - i - 2, -2, 2) + 2]
                )
                / 2.0
                for j in range(i + 3)
            ]
            p = np.exp(scores - np.max(scores))
            vector = p / p.sum() @ (whole[: i + 3] @ w["v"][:, n])
            out[i] += w["o"][:, n] @ vector
    wanted = layer.norm(x + tf.constant(out[np.newaxis], tf.float32))
    np.testing.assert_allclose(found, wanted, atol=1e-5)
