"""Heads that begin with a neighbour: where their position scores peak."""

import numpy as np
import pytest
import tensorflow as tf

from common.errors import UserError
from modeling import XLNetConfig, XLNetModel
from modeling.attention.positions.sinusoids import sinusoid_table
from modeling.checkpoints.names import named_variables
from modeling.encoders.xlnet.nearest_attention import attend_to_nearest

CONFIG = XLNetConfig(
    vocab_size=30,
    d_model=96,
    n_layer=2,
    n_head=5,
    d_head=40,
    d_inner=20,
    init_std=0.05,
)


def model_of(config):
    tf.keras.utils.set_random_seed(5)
    return XLNetModel(config)


def position_shares(model, layer, span=64):
    """softmax over the distances of (v . W_kR R_d) / sqrt(H): [R, N], [R]."""
    attention = model.blocks[layer].rel_attn
    table = sinusoid_table(span, span, model.config.d_model)[0]
    kernel, bias = attention.kernels["r"], attention.r_r_bias
    scores = tf.einsum("rd,dnh,nh->rn", table, kernel, bias)
    scores /= model.config.d_head**0.5
    return tf.nn.softmax(scores, 0).numpy(), span - np.arange(2 * span)


@pytest.mark.parametrize(
    ("kind", "wanted"), [("bi", [1, -1, 2]), ("uni", [1, 2, 3])]
)
def test_half_of_the_heads_prefer_their_neighbour(kind, wanted):
    model = model_of(CONFIG.replace(attn_type=kind))
    before, _ = position_shares(model, 0)
    attend_to_nearest(model)
    for layer in range(CONFIG.n_layer):
        shares, distances = position_shares(model, layer)
        shares, other = shares[:, :3], shares[:, 3:]
        assert distances[shares.argmax(0)].tolist() == wanted
        near = np.abs(distances[:, np.newaxis] - wanted) <= 2
        assert (np.where(near, shares, 0).sum(0) > 0.3).all()
        if layer == 0:
            np.testing.assert_array_equal(other, before[:, 3:])
            assert np.where(near, before[:, :3], 0).sum(0).max() < 0.1


def test_only_the_biases_of_positions_change():
    plain, nearest = model_of(CONFIG), model_of(CONFIG)
    attend_to_nearest(nearest)
    for name, value in named_variables(plain).items():
        equal = np.array_equal(value, named_variables(nearest)[name])
        assert equal == ("r_r_bias" not in name), name


def test_shared_biases_are_refused():
    model = model_of(CONFIG.replace(untie_r=False))
    before = model.get_weights()
    with pytest.raises(UserError, match="needs --untie_r.*kernels of 2 layers"):
        attend_to_nearest(model)
    for old, new in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)
