"""Rotary positions by hand."""

import numpy as np
import tensorflow as tf

from modeling.attention import rotary


def test_the_rotation_is_the_half_split_one():
    cos, sin = rotary.table(tf.constant([1]), 4, 100.0)
    x = tf.reshape(tf.constant([1.0, 2.0, 3.0, 4.0]), [1, 1, 1, 4])
    a, b = 1.0, 0.1  # angles: 100^0, 100^(-2/4)
    wanted = [
        np.cos(a) - 3 * np.sin(a),
        2 * np.cos(b) - 4 * np.sin(b),
        3 * np.cos(a) + np.sin(a),
        4 * np.cos(b) + 2 * np.sin(b),
    ]
    rotated = rotary.rotate(x, cos[tf.newaxis], sin[tf.newaxis])[0, 0, 0]
    np.testing.assert_allclose(rotated, wanted, rtol=1e-5)
