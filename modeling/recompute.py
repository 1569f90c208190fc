"""Trading time for memory: run a layer again in the backward pass."""

from collections.abc import Callable

import tensorflow as tf
from tensorflow.compiler.tf2xla.ops import gen_xla_ops

METHODS = ("none", "layer", "layer_barrier")


def recompute(fn: Callable, method: str) -> Callable:
    """Wraps `fn(*tensors) -> tensor or tuple of tensors`.

    Args:
      fn: a pure function of its tensors and of variables that it reads; other
        captured tensors get no gradient.
      method: "none"; "layer" (`tf.recompute_grad`, CPU and GPU); or
        "layer_barrier" for TPU, whose compiler merges the two runs unless an
        optimization barrier keeps them apart. The barrier exists in compiled
        functions only.

    Returns:
      A function like `fn`.
    """
    if method == "none":
        return fn
    if method == "layer":
        return tf.recompute_grad(fn)
    if method != "layer_barrier":
        raise ValueError(
            f"`recompute` must be one of {list(METHODS)}, received {method!r}"
        )
    return _with_barrier(fn)


def _with_barrier(fn: Callable) -> Callable:
    @tf.custom_gradient
    def run(*args):
        result = fn(*args)

        def gradient(*upstream, variables=None):
            variables = list(variables or [])
            tensors = [*args, *upstream]
            held = gen_xla_ops.xla_optimization_barrier(input=tensors)
            inputs, upstream = held[: len(args)], held[len(args) :]
            with tf.GradientTape() as tape:
                tape.watch(inputs)
                tape.watch(variables)
                again = fn(*inputs)
            gradients = tape.gradient(
                again,
                [*inputs, *variables],
                output_gradients=_like(again, upstream),
                unconnected_gradients=tf.UnconnectedGradients.ZERO,
            )
            n = len(args)
            return gradients[:n], gradients[n:]

        return result, gradient

    return run


def _like(structure, values):
    return values[0] if tf.is_tensor(structure) else tuple(values)
