"""Clipping by the joint norm of all gradients."""

import tensorflow as tf


def clip_factor(
    gradients: list[tf.Tensor], limit: float, scale: tf.Tensor | float = 1.0
) -> tuple[tf.Tensor, tf.Tensor]:
    """What to multiply gradients by, so that their joint norm is in bounds.

    The factor, `scale` included, and the norm of `scale * gradients` before
    clipping, float32 scalars. The norm's limit of 0 only measures. The
    gradients themselves are not touched: `AdamW.apply` multiplies in the pass
    that reads them anyway.
    """
    scale = tf.convert_to_tensor(scale, tf.float32)
    norm = scale * tf.linalg.global_norm(gradients)
    if not limit:
        return scale, norm
    return scale * limit / tf.maximum(norm, limit), norm
