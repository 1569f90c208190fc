"""Values and gradients, eager and in graphs."""

import numpy as np
import tensorflow as tf


def value_and_gradients(function, tensors, upstream):
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        y = function(*tensors)
    return y, tape.gradient(y, tensors, upstream)


def check_same(function, tensors, upstream):
    eager = value_and_gradients(function, tensors, upstream)
    graph = tf.function(
        lambda: value_and_gradients(function, tensors, upstream),
        autograph=False,
    )()
    for a, b in zip(
        tf.nest.flatten(eager), tf.nest.flatten(graph), strict=True
    ):
        np.testing.assert_allclose(a, b, atol=2e-6)
