"""Sizes of tensors whose shapes are known in part."""

import tensorflow as tf
from tensorflow.python.ops import control_flow_util  # no public name has it


def sizes(x: tf.Tensor) -> list:
    """The size of each axis: an int where it is known, else a scalar tensor."""
    if None not in x.shape.as_list():
        return x.shape.as_list()
    dynamic = tf.shape(x)
    return [
        dynamic[i] if size is None else size
        for i, size in enumerate(x.shape.as_list())
    ]


def static_only() -> bool:
    """Whether what is traced now becomes a program of XLA as a whole.

    On TPU and with `jit_compile` no shape may depend on values.
    """
    graph = tf.compat.v1.get_default_graph()
    return control_flow_util.GraphOrParentsInXlaContext(graph)
