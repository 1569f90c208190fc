"""Rotary positions: queries and keys turned by their place (RoPE).

The half-split form: (x1, x2) -> (x1 cos - x2 sin, x2 cos + x1 sin), where x1
and x2 are the halves of a head.

Letters: B batch, T length, N heads, H head size.
"""

import tensorflow as tf

from modeling.ops import fused as fusion


def table(
    positions: tf.Tensor, d_head: int, theta: float
) -> tuple[tf.Tensor, tf.Tensor]:
    """Cosines and sines, float32 [..., T, H]; the halves are equal.

    Of int positions [..., T]; frequency m is theta^(-2m / H), H even.
    """
    powers = tf.range(0, d_head, 2, tf.float32) / d_head  # [H/2]
    frequencies = tf.pow(tf.constant(theta, tf.float32), -powers)
    angles = tf.cast(positions, tf.float32)[..., tf.newaxis] * frequencies
    angles = tf.concat([angles, angles], -1)  # [..., T, H]
    return tf.cos(angles), tf.sin(angles)


@fusion.fused
def rotate(x: tf.Tensor, cos: tf.Tensor, sin: tf.Tensor) -> tf.Tensor:
    """Turns x [N, B, T, H] by a `table` [B or 1, T, H], computed in float32.

    x1, x2 = split(x, 2)
    concat([x1 cos - x2 sin, x2 cos + x1 sin])
    """
    wide = tf.cast(x, tf.float32)
    first, second = tf.split(wide, 2, -1)
    turned = tf.concat([-second, first], -1)
    return tf.cast(wide * cos + turned * sin, x.dtype)
