"""Sizes of tensors whose shapes are known in part."""

import tensorflow as tf


def sizes(x: tf.Tensor) -> list:
    """The size of each axis: an int where it is known, else a scalar tensor."""
    if None not in x.shape.as_list():
        return x.shape.as_list()
    dynamic = tf.shape(x)
    return [
        dynamic[i] if size is None else size
        for i, size in enumerate(x.shape.as_list())
    ]
