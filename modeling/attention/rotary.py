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


def heads(
    product: tf.Tensor, cos: tf.Tensor, sin: tf.Tensor
) -> list[tf.Tensor]:
    """[B, T, 3, N, H] -> turned queries and keys, values, each [N, B, T, H].

    By a `table` [B or 1, T, H], computed in float32. The plain form:

      q, k, v = unstack(transpose(product, [2, 3, 0, 1, 4]))
      turned(x) = x * cos + concat([-x2, x1]) * sin;  x1, x2 = split(x, 2)
      turned(q), turned(k), v

    One pass over memory in each direction; nothing but the table is kept.
    """
    dtype = product.dtype

    @tf.custom_gradient
    def run(product):
        def gradient(*upstream):
            # Casts inside of the compiled functions would be slower: they read
            # an element of bfloat16 several times.
            wide = [tf.cast(x, tf.float32) for x in upstream]
            return _heads_back(*wide, cos, sin, dtype=dtype)

        wide = tf.cast(product, tf.float32)
        return _heads(wide, cos, sin, dtype=dtype), gradient

    return run(product)


@fusion.compiled
def _heads(product, cos, sin, dtype):
    q, k, v = tf.unstack(tf.transpose(product, [2, 3, 0, 1, 4]))
    turned = [x * cos + _turned(x) * sin for x in (q, k)]
    return [tf.cast(x, dtype) for x in (*turned, v)]


@fusion.compiled
def _heads_back(q, k, v, cos, sin, dtype):
    """Gradients of queries, keys and values -> that of the product."""
    q, k = (x * cos - _turned(x * sin) for x in (q, k))
    product = tf.transpose(tf.stack([q, k, v]), [2, 3, 0, 1, 4])
    return tf.cast(product, dtype)


def _turned(x):
    first, second = tf.split(x, 2, -1)
    return tf.concat([-second, first], -1)
