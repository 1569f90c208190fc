"""Activations times the kernels of a layer.

Letters: B batch, T rows, N heads, H head size, D model, F the other axes of a
kernel; any leading axes.

`Matmul` is for CPU and GPU; `modeling.ops.tpu_matmul` has the form for TPU.
"""

from collections.abc import Callable

import tensorflow as tf

from modeling.ops import fused as fusion
from modeling.ops.shapes import sizes

Kernel = tf.Tensor | tf.Variable


class Matmul:
    """Two flat matrices at a time, which libraries are made for."""

    def project(self, x: tf.Tensor, kernel: Kernel) -> tf.Tensor:
        """einsum("...d,df->...f"): a kernel [D, F]; F may be several axes."""
        product = tf.matmul(
            _rows(x, 1), self.flat(kernel, x.dtype)
        )  # [rows, F]
        return tf.reshape(product, [*sizes(x)[:-1], *kernel.shape[1:]])

    def merge(self, x: tf.Tensor, kernel: Kernel) -> tf.Tensor:
        """einsum("...nh,dnh->...d"): [..., N, H] and a kernel -> [..., D]."""
        flat = self.flat(kernel, x.dtype)  # [D, N*H]
        product = tf.matmul(_rows(x, 2), flat, transpose_b=True)  # [rows, D]
        return tf.reshape(product, [*sizes(x)[:-2], kernel.shape[0]])

    def heads(self, pieces: list, kernels: list) -> list[tf.Tensor]:
        """Rows by each kernel [D, N, H], as [N, B, T, H]; one matmul.

        [einsum("btd,dnh->nbth", concat(pieces, 1), kernel) for each kernel] of
        pieces [B, T_i, D], T rows together.
        """
        product = self.joined(pieces, kernels)  # [B, T, N*H of all]
        tail = [len(kernels), *kernels[0].shape[1:]]
        return _heads_first(tf.reshape(product, [*sizes(product)[:2], *tail]))

    def joined(self, pieces: list, kernels: list) -> tf.Tensor:
        """[B, T_i, D] and kernels [D, N, H] -> [B, T, N*H of all].

        einsum("btd,df->btf", concat(pieces, 1), concat(flat kernels, 1))
        """
        return _joined_matmul(
            pieces, [self.flat(kernel, pieces[0].dtype) for kernel in kernels]
        )

    def by_head(self, x: tf.Tensor, kernel: Kernel) -> list[tf.Tensor]:
        """[N, B, Q, H] by a kernel [S, W, N, H], W in two halves [N, B, Q, W/2].

        Each of S equal parts of the batch has its own: einsum(
        "nsbqh,sfnh->nsbqf").
        """
        kernel = tf.cast(tf.convert_to_tensor(kernel), x.dtype)
        kernels = tf.unstack(kernel)
        parts = zip(tf.split(x, len(kernels), 1), kernels, strict=True)
        products = [tf.einsum("nbqh,fnh->nbqf", *part) for part in parts]
        return tf.split(tf.concat(products, 1), 2, -1)

    def project_recomputed(
        self, function: Callable, tensors: list, kernel: Kernel, **static
    ) -> tf.Tensor:
        """function(*tensors) [rows, F] and a kernel [F, D] -> [rows, D].

        The function's result is not kept: the backward pass recomputes it.
        """
        # A cast that changes nothing leaves a variable a variable.
        tensors = [t if t is None else tf.convert_to_tensor(t) for t in tensors]
        present = [i for i, t in enumerate(tensors) if t is not None]

        @tf.custom_gradient
        def run(kernel, *arguments):
            def gradient(dy):
                upstream = tf.matmul(dy, kernel, transpose_b=True)  # [rows, F]
                x, gradients = function.recompute(upstream, *tensors, **static)
                d_kernel = tf.matmul(x, dy, transpose_a=True)  # [F, D]
                return d_kernel, *[gradients[i] for i in present]

            x = function.forward(*tensors, **static)  # [rows, F]
            return tf.matmul(x, kernel), gradient  # [rows, D]

        arguments = [tensors[i] for i in present]
        return run(self.flat(kernel, arguments[0].dtype), *arguments)

    def flat(self, kernel: Kernel, dtype: tf.DType) -> tf.Tensor:
        """A kernel as a matrix, its first axis by the others."""
        kernel = tf.cast(tf.convert_to_tensor(kernel), dtype)
        if kernel.shape.rank == 2:
            return kernel
        return tf.reshape(kernel, [kernel.shape[0], -1])


def _heads_first(product: tf.Tensor) -> list[tf.Tensor]:
    """[B, T, F, N, H] -> F tensors [N, B, T, H].

    The plain form: unstack(transpose(product, [2, 3, 0, 1, 4])). The backward
    pass stacks and transposes in one pass over memory.
    """

    @tf.custom_gradient
    def run(product):
        def gradient(*upstream):
            return _heads_last(*upstream)

        # What is unstacked is no copy.
        return tf.unstack(tf.transpose(product, [2, 3, 0, 1, 4])), gradient

    return run(product)


@fusion.compiled
def _heads_last(*heads):
    return tf.transpose(tf.stack(heads), [2, 3, 0, 1, 4])


class PreparedMatmul(Matmul):
    """With kernels read, cast and flattened before a loop that uses them."""

    def __init__(self, kernels: list, groups: list, dtype: tf.DType):
        flat = super().flat
        self._flat = {kernel.ref(): flat(kernel, dtype) for kernel in kernels}
        for group in groups:
            kernel = tf.concat([flat(kernel, dtype) for kernel in group], 1)
            self._flat[_refs(group)] = kernel  # [D, N*H of all]

    def joined(self, pieces: list, kernels: list) -> tf.Tensor:
        x = tf.concat(pieces, 1) if len(pieces) > 1 else pieces[0]
        product = tf.matmul(_rows(x, 1), self._flat[_refs(kernels)])
        return tf.reshape(product, [*sizes(x)[:-1], product.shape[1]])

    def flat(self, kernel: Kernel, dtype: tf.DType) -> tf.Tensor:
        return self._flat[kernel.ref()]


def _refs(kernels):
    return tuple(kernel.ref() for kernel in kernels)


def _joined_matmul(pieces, kernels):
    """[B, T_i, D] joined by rows and [D, F_i] joined by columns -> [B, T, F].

    What is joined is not kept: the backward pass joins it again.
    """
    count = len(pieces)

    def joined(args):  # [B, T, D] and [D, F]
        return tf.concat(args[:count], 1), tf.concat(args[count:], 1)

    @tf.custom_gradient
    def run(*args):
        x, kernel = joined(args)
        batch, length, width = sizes(x)

        def gradient(dy):
            with tf.control_dependencies([dy]):
                x, kernel = joined(args)
            dy = _rows(dy, 1)  # [B*T, F]
            d_x = tf.matmul(dy, kernel, transpose_b=True)  # [B*T, D]
            d_x = tf.reshape(d_x, [batch, length, width])  # [B, T, D]
            d_kernel = tf.matmul(_rows(x, 1), dy, transpose_a=True)  # [D, F]
            return *_apart(d_x, args[:count]), *_apart(d_kernel, args[count:])

        product = tf.matmul(_rows(x, 1), kernel)  # [B*T, F]
        return tf.reshape(product, [batch, length, kernel.shape[1]]), gradient

    return run(*pieces, *kernels)


def _apart(joined, pieces):
    """Along axis 1; slices, of which those that nobody asks for are not made."""
    first, slices = 0, []
    for piece in pieces:
        size = sizes(piece)[1]
        slices.append(joined[:, first : first + size])
        first += size
    return slices


def _rows(x, axes):
    """x as a matrix whose columns are the last `axes` axes."""
    if x.shape.rank == 2:
        return x
    return tf.reshape(x, [-1, x.shape[-axes:].num_elements()])
