"""Matrices in bfloat16, vectors in float32, the same weights rounded."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from modeling import ClassificationModel, XLNetConfig
from modeling.checkpoints.names import named_variables
from modeling.models.half_precision import in_bfloat16, to_export

CONFIG = XLNetConfig(
    vocab_size=29, d_model=6, n_layer=2, n_head=3, d_head=4, d_inner=10
)


def test_tables_and_kernels_are_halved_and_vectors_are_not():
    def build():
        return ClassificationModel(CONFIG, 4)

    model = build()
    rng = np.random.default_rng(0)
    for variable in model.variables:
        variable.assign(rng.normal(size=variable.shape) * 0.3)
    half = in_bfloat16(build, model)
    weights = named_variables(model)
    for name, variable in named_variables(half).items():
        stored = getattr(variable, "true_dtype", variable.dtype)
        wide = variable.shape.rank > 1
        assert stored == (tf.bfloat16 if wide else tf.float32), name
        wanted = tf.cast(tf.cast(weights[name], stored), tf.float32)
        found = tf.cast(tf.convert_to_tensor(variable), tf.float32)
        np.testing.assert_array_equal(found, wanted, err_msg=name)
    assert tf_keras.mixed_precision.global_policy().name == "float32"
    ids = np.arange(10).reshape(2, 5)
    near, exact = half(ids), model(ids)
    assert np.abs(tf.cast(near, tf.float32) - exact).max() < 0.2


@pytest.mark.parametrize("precision", ["float32", "mixed_bfloat16"])
def test_an_export_has_its_own_precision(precision):
    """A training's was the export's: one in float16 ended in a trace."""
    tf_keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        with to_export(
            lambda: ClassificationModel(CONFIG, 4),
            lambda model: model.variables[0].assign_add(model.variables[0]),
            precision,
        ) as model:
            assert model.dtype_policy.name == precision
        after = tf_keras.mixed_precision.global_policy().name
    finally:
        tf_keras.mixed_precision.set_global_policy("float32")
    assert after == "mixed_float16"


def test_the_policy_comes_back_after_a_failure():
    try:
        in_bfloat16(lambda: 1 / 0, None)
    except ZeroDivisionError:
        pass
    assert tf_keras.mixed_precision.global_policy().name == "float32"
