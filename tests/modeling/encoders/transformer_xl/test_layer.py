"""One layer of Transformer-XL: its kind of attention, and learned places."""

import numpy as np
import pytest
import tensorflow as tf

from common.errors import UserError
from modeling.attention.encodings import ContentAttention, ShawAttention
from modeling.attention.relative_attention import RelativeAttention
from modeling.encoders.transformer_xl.config import TransformerXLConfig
from modeling.encoders.transformer_xl.layer import CausalLayer


def config(encoding="relative", **changes):
    values = dict(
        vocab_size=9,
        n_layer=2,
        d_model=6,
        n_head=3,
        d_head=4,
        d_inner=8,
        mem_len=5,
        encoding=encoding,
        max_positions=7,
    )
    return TransformerXLConfig(**(values | changes))


@pytest.mark.parametrize(
    "encoding, kind",
    [
        ("relative", RelativeAttention),
        ("shaw", ShawAttention),
        ("shaw_released", ShawAttention),
        ("absolute", ContentAttention),
        ("per_layer", ContentAttention),
    ],
)
def test_an_encoding_is_a_kind_of_attention(encoding, kind):
    layer = CausalLayer(config(encoding))
    assert type(layer.rel_attn) is kind
    layer.build([None, None, 6])
    paths = layer.variable_paths()
    assert ("r_emb" in paths) == (encoding == "per_layer")
    assert len(paths) == len(layer.trainable_variables)


def test_the_last_places_are_those_of_a_short_segment():
    layer = CausalLayer(config("per_layer"))
    layer.build([None, None, 6])
    table = np.arange(42, dtype=np.float32).reshape(7, 6)
    layer.r_emb.assign(table)
    found = layer.with_positions(tf.ones([2, 3, 6]))
    np.testing.assert_array_equal(found[1], 1.0 + table[4:])
    with pytest.raises(UserError, match="8 tokens is longer than the 7 places"):
        layer.with_positions(tf.ones([1, 8, 6]))
    any_length = tf.function(
        layer.with_positions,
        input_signature=[tf.TensorSpec([None, None, 6])],
        autograph=False,
    )
    np.testing.assert_array_equal(any_length(tf.ones([2, 3, 6])), found)
    for length in (8, 14):
        with pytest.raises(tf.errors.InvalidArgumentError, match="is longer"):
            any_length(tf.ones([1, length, 6]))
    bare = CausalLayer(config())
    bare.build([None, None, 6])
    x = tf.ones([1, 8, 6])
    assert bare.with_positions(x) is x


def test_the_norms_have_the_configurations_epsilon():
    layer = CausalLayer(config(layer_norm_epsilon=0.5))
    assert layer.rel_attn.norm.epsilon == layer.ff.norm.epsilon == 0.5
