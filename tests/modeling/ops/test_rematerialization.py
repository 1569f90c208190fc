"""Running a layer again changes neither values nor gradients."""

import numpy as np
import pytest
import tensorflow as tf

from modeling.ops.rematerialization import METHODS, in_turn, recompute

KERNEL = np.random.default_rng(1).normal(size=(3, 4)).astype(np.float32)


@pytest.mark.parametrize("method", METHODS)
def test_values_and_gradients_are_those_of_the_function(method):
    kernel = tf.Variable(KERNEL)
    x = tf.constant(np.random.default_rng(0).normal(size=(2, 3)), tf.float32)

    def layer(x, y):
        return tf.tanh(x @ kernel), y * 2.0

    # Barriers exist in compiled functions only.
    compiled = method in ("layer_barrier", "order")

    @tf.function(jit_compile=compiled, autograph=False)
    def step(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            a, b = recompute(layer, method)(x, x * 3.0)
            loss = tf.reduce_sum(a**2) + tf.reduce_sum(b**3)
        return a, b, *tape.gradient(loss, [x, kernel])

    a, b, d_x, d_kernel = step(x)
    inner = np.tanh(x.numpy() @ KERNEL)
    outer = 2.0 * inner * (1.0 - inner**2)
    np.testing.assert_allclose(a, inner, atol=1e-5)
    np.testing.assert_allclose(b, 6.0 * x, rtol=1e-5)
    np.testing.assert_allclose(d_kernel, x.numpy().T @ outer, atol=1e-4)
    wanted = outer @ KERNEL.T + 6.0 * 3.0 * (6.0 * x.numpy()) ** 2
    np.testing.assert_allclose(d_x, wanted, rtol=1e-4)


def test_another_method_is_refused():
    with pytest.raises(ValueError, match="`recompute` must be one of .*'all'"):
        recompute(lambda x: x, "all")


def test_what_comes_in_turn_has_its_own_gradients():
    x, y, z = (tf.constant(v) for v in (2.0, 3.0, 5.0))
    with tf.GradientTape() as tape:
        tape.watch([x, y, z])
        done, a, b = in_turn(x, y, z)
        loss = done * a + b**2
    assert [float(v) for v in (done, a, b)] == [2.0, 3.0, 5.0]
    found = tape.gradient(loss, [x, y, z])
    assert [float(g) for g in found] == [3.0, 2.0, 10.0]
