"""The weights that a config asks for."""

import numpy as np
import tensorflow as tf

from modeling import XLNetConfig, XLNetModel

CONFIG = XLNetConfig(
    vocab_size=600,
    d_model=8,
    n_layer=1,
    n_head=2,
    d_head=3,
    d_inner=10,
    init_range=0.3,
    init_std=0.05,
)


def table(**changes):
    tf.keras.utils.set_random_seed(1)
    model = XLNetModel(CONFIG.replace(**changes))
    return model.embeddings.lookup_table.numpy()


def test_normal_weights_have_the_deviation():
    values = table()
    assert abs(values.mean()) < 0.005
    assert abs(values.std() - 0.05) < 0.005
    assert np.abs(values).max() > 0.12


def test_uniform_weights_fill_both_sides_of_the_range():
    values = table(init_method="uniform")
    assert abs(values.mean()) < 0.02
    assert -0.3 <= values.min() < -0.29 and 0.29 < values.max() <= 0.3


def test_no_two_variables_of_a_shape_are_equal():
    model = XLNetModel(CONFIG)
    kernels = [v.numpy() for v in model.blocks[0].rel_attn.kernels.values()]
    for i, a in enumerate(kernels):
        assert not any(np.array_equal(a, b) for b in kernels[:i])
