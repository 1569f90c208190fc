"""What the backward pass keeps of a layer, and in which order it works.

Trading time for memory: a layer is run again instead of being kept.

On TPU the order matters, too. Its compiler is free to postpone the matmuls
that make the gradients of weights, and in a deep model it does: their operands
(the largest is [N, B, T, R], 46 MB per layer of XLNet-Large with 2 rows) of
all layers are then alive at once. A barrier makes the gradients of a layer
come before the backward pass of the layer below.
"""

from collections.abc import Callable

import tensorflow as tf
from tensorflow.compiler.tf2xla.ops import gen_xla_ops

METHODS = ("none", "layer", "layer_barrier", "order")
TPU_METHODS = ("layer_barrier", "order")  # compiled functions only


def recompute(fn: Callable, method: str) -> Callable:
    """Wraps `fn(*tensors) -> tensor or tuple of tensors`, a pure function.

    The plain form: `recompute(fn, method) = fn`, values and gradients. Tensors
    that it captures get no gradient, variables do. Methods are "none"; "layer"
    (`tf.recompute_grad`, CPU and GPU); "layer_barrier" for TPU, whose compiler
    merges the two runs unless an optimization barrier keeps them apart; or
    "order", for TPU without recomputation: all is kept, layers are finished one
    by one. Barriers exist in compiled functions only.
    """
    if method == "none":
        return fn
    if method == "layer":
        return tf.recompute_grad(fn)
    if method == "layer_barrier":
        return _with_barrier(fn)
    if method == "order":
        return _in_order(fn)
    raise ValueError(
        f"`recompute` must be one of {list(METHODS)}, received {method!r}"
    )


def in_turn(done: tf.Tensor, *tensors: tf.Tensor) -> list[tf.Tensor]:
    """`done` and the tensors of what comes next, ready after `done`.

    In the backward pass it is the other way round: the gradient of `done` is
    ready after those of the tensors. So what two parts keep for themselves is
    not in memory at the same time.
    """

    @tf.custom_gradient
    def hold(done, *tensors):
        def gradient(d_done, *d_tensors):
            with tf.control_dependencies(d_tensors):
                return tf.identity(d_done), *d_tensors

        with tf.control_dependencies([done]):
            held = [tf.identity(x) for x in tensors]
        return (tf.identity(done), *held), gradient

    return hold(done, *tensors)


def _with_barrier(fn: Callable) -> Callable:
    @tf.custom_gradient
    def run(*args):
        result = fn(*args)

        def gradient(*upstream, variables=None):
            variables = list(variables or [])
            tensors = [*args, *upstream]
            held = _barrier(tensors)
            inputs, upstream = held[: len(args)], held[len(args) :]
            with tf.GradientTape() as tape:
                tape.watch(inputs)
                tape.watch(variables)
                again = fn(*inputs)
            return _gradients(tape, again, inputs, variables, upstream)

        return result, gradient

    return run


def _in_order(fn: Callable) -> Callable:
    @tf.custom_gradient
    def run(*args):
        with tf.GradientTape() as tape:
            tape.watch(args)
            result = fn(*args)

        def gradient(*upstream, variables=None):
            return _gradients(tape, result, args, variables or [], upstream)

        return result, gradient

    return run


def _gradients(tape, result, inputs, variables, upstream):
    """Those of inputs and of variables, none of them before all are there."""
    if tf.is_tensor(result):
        (upstream,) = upstream
    gradients = tape.gradient(result, [*inputs, *variables], upstream)
    gradients = _barrier(gradients)
    return gradients[: len(inputs)], gradients[len(inputs) :]


def _barrier(tensors: list) -> list:
    """The tensors, none of which is there before all are; None stays None."""
    present = [i for i, t in enumerate(tensors) if t is not None]
    held = gen_xla_ops.xla_optimization_barrier(
        input=[tensors[i] for i in present]
    )
    after = list(tensors)
    for i, tensor in zip(present, held, strict=True):
        after[i] = tensor
    return after
