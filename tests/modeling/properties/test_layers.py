"""Every layer: build, call, gradients, save, reload, mixed precision."""

import numpy as np
import pytest
import tensorflow as tf

from modeling import XLNetConfig
from modeling.attention.attend import Stream, Streams
from modeling.attention.positions import sinusoids
from modeling.attention.relative_attention import RelativeAttention
from modeling.encoders.xlnet.embeddings import Embeddings
from modeling.encoders.xlnet.layer import TransformerLayer
from modeling.heads.language_model import LanguageModelHead
from modeling.heads.pooling import AttentionPooling, SequenceSummary
from modeling.ops.feed_forward import FeedForward
from modeling.ops.normalization import LayerNorm
from tests.modeling.properties.layer_checks import check_layer

B, T, D = 2, 5, 12
CONFIG = XLNetConfig(
    vocab_size=29,
    d_model=D,
    n_layer=2,
    n_head=3,
    d_head=5,
    d_inner=20,
    dropout=0.1,
    dropatt=0.2,
    clamp_len=3,
)
RNG = np.random.default_rng(0)
HIDDEN = RNG.normal(size=[B, T, D]).astype(np.float32)
TABLE = RNG.normal(size=[B, 29, D]).astype(np.float32)
IDS = RNG.integers(0, 29, [B, T]).astype(np.int32)
SEGMENTS = RNG.integers(0, 2, [B, T, T]).astype(np.float32)
BIASES = RNG.normal(size=[3, 3, 5]).astype(np.float32)


def places(x) -> tf.Tensor:
    """[1, 2T, D]."""
    length = tf.shape(x)[1]
    return sinusoids.sinusoid_table(length, length, D)


def attend(layer, x, segments):
    """The content stream of a layer that gets u, v and s."""
    biases = tuple(tf.constant(b) for b in BIASES)
    keys = layer.keys([x], tf.shape(x)[1], (places(x), *biases))
    return layer(x, keys, Stream(segments=segments))


def both_streams(layer, h, segments):
    """[B, 2T, D]: the query stream starts as the content stream turned."""
    stream = Stream(segments=segments)
    streams = Streams(stream, stream)
    pair = layer(h, g=h[:, ::-1], shared=(places(h),), streams=streams)
    return tf.concat(pair, 1)


def lm_logits(layer, hidden, table):
    return layer(hidden, table[0])


CASES = [
    (
        RelativeAttention(D, 3, 5, 0.1, 0.2, untie_r=False),
        [HIDDEN, SEGMENTS],
        attend,
    ),
    (FeedForward(D, 20, "relu", 0.1, 0.3), [HIDDEN], None),
    (LayerNorm(1e-5), [HIDDEN], None),
    (TransformerLayer(CONFIG), [HIDDEN, SEGMENTS], both_streams),
]
FLOAT32 = [
    (SequenceSummary(CONFIG, "attn", True, "original"), [HIDDEN], None),
    (AttentionPooling(CONFIG), [HIDDEN], None),
    (LanguageModelHead(CONFIG), [HIDDEN, TABLE], lm_logits),
]


def name(value):
    return type(value).__name__ if hasattr(value, "get_config") else ""


@pytest.mark.long
@pytest.mark.parametrize("layer, inputs, call", CASES, ids=name)
def test_layer(layer, inputs, call, tmp_path):
    check_layer(layer, inputs, tmp_path, call)


@pytest.mark.parametrize("layer, inputs, call", FLOAT32, ids=name)
def test_float32_layer(layer, inputs, call, tmp_path):
    check_layer(layer, inputs, tmp_path, call, mixed="float32")


def test_embeddings(tmp_path):
    def all_rows(layer, ids):
        rows = layer.mixed_rows(layer(ids), ids % 2)
        return tf.concat([rows, layer.query_rows(tf.shape(ids)[0], 1)], 1)

    check_layer(Embeddings(29, D), [IDS], tmp_path, all_rows)
