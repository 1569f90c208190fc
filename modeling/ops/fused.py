"""Elementwise arithmetic in one pass over memory, forward and backward.

TensorFlow's graphs run one kernel per operation: an activation of twelve
operations reads and writes its tensor twelve times, and keeps most of them for
the backward pass. `fused` compiles such a function with XLA to one fused kernel
of the graph; matmuls stay outside, where they are as fast as they can be. The
backward pass recomputes the forward function, in registers.

Outside of a `tf.function` and on small tensors the function simply runs, and so
it does on tensors of unknown shape, because a program is compiled per shape. A
graph whose unknown shapes are few says so (`expect_few_shapes`): a training step,
whose batches come in a handful of lengths, each compiled when it comes first. A
served model would compile for every new request. The numbers are the same up to
float rounding.
"""

import functools
import weakref
from collections.abc import Callable

import tensorflow as tf

from common.process import library_lines, tpu_build

# Compiling takes about a tenth of a second, and passes over a megabyte, which
# the caches hold, next to nothing.
MIN_ELEMENTS = 2**18
library_lines.silence()
_FEW_SHAPES: weakref.WeakSet = weakref.WeakSet()  # graphs


def fused(function: Callable) -> Callable:
    """Compiles `function(*tensors, **static) -> tensor` forward and backward.

    The plain form: `fused(function)(*x) = function(*x)`, and its gradient is
    `tape.gradient(function(*x), x)`. Gradients flow to float arguments.
    Gradients that are written by hand use its attributes `forward` (without a
    gradient) and `recompute(upstream, *tensors, **static)`: what it returns and
    the gradient, or None, of each tensor.

    Args:
      function: pure; its positional arguments are tensors (or None), its
        keyword arguments hashable Python values. Cheap: the backward pass
        runs it again.
    """
    forward = compiled(function)

    def gradients(upstream, *tensors, **static):
        """What `function` returns, and a gradient (or None) per tensor."""
        watched = [t for t in tensors if _differentiable(t)]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(watched)
            result = function(*tensors, **static)
        results = iter(
            tape.gradient(
                result,
                watched,
                upstream,
                unconnected_gradients=tf.UnconnectedGradients.ZERO,
            )
        )
        return result, [
            next(results) if _differentiable(t) else None for t in tensors
        ]

    # Two programs: who does not ask for the result again does not pay for it.
    recompute = compiled(gradients)
    backward = compiled(lambda *t, **static: gradients(*t, **static)[1])

    @functools.wraps(function)
    def call(*tensors, **static):
        if not worthwhile(*tensors):
            return function(*tensors, **static)
        present = [t is not None for t in tensors]

        @tf.custom_gradient
        def run(*floats):
            filled = iter(floats)
            full = [next(filled) if p else None for p in present]

            def gradient(upstream):
                results = backward(upstream, *full, **static)
                return [g for g, p in zip(results, present, strict=True) if p]

            return forward(*full, **static), gradient

        return run(*[tf.convert_to_tensor(t) for t in tensors if t is not None])

    call.forward, call.recompute = forward, recompute
    return call


def compiled(function: Callable) -> Callable:
    """Like `fused` for a function that never needs a gradient of its own.

    Its arguments may be variables, which it may assign: that happens where they
    lie. Variables with several copies (`tf.distribute`) are no arguments of a
    compiled function; with them it simply runs.
    """
    # TensorFlow's TPU build has no XLA for the host: there they are plain
    # functions, and a program of the TPU is compiled as a whole anyway.
    on_host = tpu_build.version_of("tensorflow-tpu") is None
    forward = tf.function(
        function, jit_compile=True if on_host else None, autograph=False
    )

    @functools.wraps(function)
    def call(*tensors, **static):
        if not worthwhile(*tensors):
            return function(*tensors, **static)
        return forward(*tensors, **static)

    return call


def expect_few_shapes() -> None:
    """Compiles for unknown shapes, too, in the graph that is being built.

    It holds for all of the graph: what is within it, its backward pass, and the
    threads in which replicas are traced.
    """
    if tf.inside_function():
        _FEW_SHAPES.add(_whole_graph())


def few_shapes() -> bool:
    """Whether the graph that is being built called `expect_few_shapes`."""
    return tf.inside_function() and _whole_graph() in _FEW_SHAPES


def _whole_graph() -> tf.Graph:
    """The outermost graph that is being built."""
    graph = tf.compat.v1.get_default_graph()
    while getattr(graph, "outer_graph", None) is not None:
        if not graph.outer_graph.building_function:
            break
        graph = graph.outer_graph
    return graph


def worthwhile(*tensors) -> bool:
    """In a graph and large; of unknown shape only where few are expected."""
    if not tf.inside_function():
        return False
    if any(isinstance(t, tf.distribute.DistributedValues) for t in tensors):
        return False
    sizes = [
        tf.TensorShape(t.shape).num_elements() for t in tensors if t is not None
    ]
    if None in sizes:
        return few_shapes()
    return max(sizes) >= MIN_ELEMENTS


def _differentiable(t) -> bool:
    return t is not None and t.dtype.is_floating
