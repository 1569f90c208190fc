"""Activations times the kernels of a layer, in the form for TPU.

Letters: N heads, H head size, D model; any leading axes.

Two things that the compiler does not find by itself:

- Kernels are variables of float32 that matmuls read as bfloat16. The copy of
  the forward pass would be kept for the backward pass: 27 MB per layer of
  XLNet-Large, a quarter of all that is kept. Behind a barrier it is recomputed.
- A matmul over several axes at once (N, H; or B, K for a kernel's gradient)
  needs none of the reshapes that `tf.matmul` asks for, each of which moves a
  whole tensor through memory.

For compiled functions only.
"""

import tensorflow as tf
from tensorflow.compiler.tf2xla.ops import gen_xla_ops
from tensorflow.compiler.tf2xla.python import xla
from tensorflow.compiler.xla import xla_data_pb2

from modeling.ops.matmul import Matmul
from modeling.ops.shapes import sizes


class TpuMatmul(Matmul):
    """The kernels of one layer in one call, cast once in each direction.

    They are cast when the tensor `after`, which the layer reads, exists, so
    that a layer which is run again casts again.
    """

    def __init__(self, after: tf.Tensor):
        self._after = after
        self._forward_casts: dict = {}
        self._backward_casts: dict = {}

    def project(self, x: tf.Tensor, kernel: tf.Variable) -> tf.Tensor:
        """[..., D] and a kernel [D, ...] -> [..., the kernel's other axes]."""
        return self._product(x, kernel, 1, False)

    def merge(self, x: tf.Tensor, kernel: tf.Variable) -> tf.Tensor:
        """[..., N, H] and a kernel [D, N, H] -> [..., D]."""
        return self._product(x, kernel, kernel.shape.rank - 1, True)

    def heads(self, pieces: list, kernels: list) -> list[tf.Tensor]:
        """[B, T_i, D], joined, by each kernel [D, N, H], as [N, B, T, H].

        Apart: neither joined kernels nor a joined result are kept.
        """
        x = tf.concat(pieces, 1)
        products = [self.project(x, kernel) for kernel in kernels]
        return [tf.transpose(p, [2, 0, 1, 3]) for p in products]

    def by_head(self, x: tf.Tensor, kernel: tf.Tensor) -> list[tf.Tensor]:
        """See `Matmul`; gradients of the halves are never joined."""
        value, cast = self._read(kernel, x.dtype)
        n, batch, rows, h = sizes(x)
        directions, width = sizes(cast)[:2]  # S, F
        lead = [n, directions, batch // directions, rows]

        @tf.custom_gradient
        def run(x, value, cast):
            def gradient(*dy):
                late = self._cast_after(kernel, value, dy[0], x.dtype)
                dy = [tf.reshape(d, [*lead, width // 2]) for d in dy]
                pairs = zip(dy, tf.split(late, 2, 1), strict=True)
                dx = tf.add_n(
                    [_dot(d, w, [4], [1], [0, 1], [2, 0]) for d, w in pairs]
                )
                parts = [_dot(d, x, [2, 3], [2, 3], [0, 1], [0, 1]) for d in dy]
                d_kernel = tf.transpose(tf.concat(parts, 2), [1, 2, 0, 3])
                return dx, tf.cast(d_kernel, value.dtype), None

            halves = tf.split(cast, 2, 1)  # [S, W/2, N, H] each
            y = [_dot(x, w, [4], [3], [0, 1], [2, 0]) for w in halves]
            return [tf.reshape(v, [n, batch, rows, -1]) for v in y], gradient

        return run(tf.reshape(x, [*lead, h]), value, cast)

    def project_recomputed(
        self, function, tensors, kernel, **static
    ) -> tf.Tensor:
        """The result is kept; the compiler decides what it recomputes."""
        return self.project(function(*tensors, **static), kernel)

    def _product(self, x, kernel, axes, is_merge):
        value, cast = self._read(kernel, x.dtype)

        @tf.custom_gradient
        def run(x, value, cast):
            def gradient(dy):
                late = self._cast_after(kernel, value, dy, x.dtype)
                dx = _contract(dy, late, kernel.shape.rank - axes, not is_merge)
                pair = (dy, x) if is_merge else (x, dy)
                lead = list(range(x.shape.rank - axes))
                d_kernel = _dot(*pair, lead, lead)
                return dx, tf.cast(d_kernel, value.dtype), None

            return _contract(x, cast, axes, is_merge), gradient

        return run(x, value, cast)

    def _read(self, kernel, dtype):
        """The kernel's value, and its cast for the forward pass."""
        key = kernel.ref()
        if key not in self._forward_casts:
            value = tf.convert_to_tensor(kernel)
            held, _ = _barrier(value, self._after)
            self._forward_casts[key] = (
                value,
                tf.stop_gradient(tf.cast(held, dtype)),
            )
        return self._forward_casts[key]

    def _cast_after(self, kernel, value, dy, dtype):
        """The cast for the backward pass, after the first gradient exists."""
        key = kernel.ref()
        if key not in self._backward_casts:
            held, _ = _barrier(value, dy)
            self._backward_casts[key] = tf.cast(held, dtype)
        return self._backward_casts[key]


def _contract(x, kernel, axes, is_merge):
    """Over the last `axes` axes of x and the last or first of the kernel."""
    first = kernel.shape.rank - axes if is_merge else 0
    return _dot(
        x,
        kernel,
        list(range(x.shape.rank - axes, x.shape.rank)),
        list(range(first, first + axes)),
    )


def _dot(a, b, axes_a, axes_b, batch_a=(), batch_b=()):
    """The batch axes, the axes of a that are left, then those of b."""
    numbers = xla_data_pb2.DotDimensionNumbers(
        lhs_contracting_dimensions=axes_a,
        rhs_contracting_dimensions=axes_b,
        lhs_batch_dimensions=batch_a,
        rhs_batch_dimensions=batch_b,
    )
    return xla.dot_general(a, b, numbers)


def _barrier(*tensors):
    return gen_xla_ops.xla_optimization_barrier(input=list(tensors))
