"""Products of activations with the kernels of a layer.

Letters: B batch, T rows, N heads, H head size, D model; any leading axes.

`Products` is for CPU and GPU; `modeling.ops.tpu_matmul` has the form for TPU.
"""

from collections.abc import Callable

import tensorflow as tf

from modeling.ops.shapes import sizes

Kernel = tf.Tensor | tf.Variable


class Products:
    """Matrix products of two flat matrices, which libraries are made for."""

    def project(self, x: tf.Tensor, kernel: Kernel) -> tf.Tensor:
        """[..., D] and a kernel [D, ...] -> [..., the kernel's other axes]."""
        product = tf.matmul(_rows(x, 1), _flat(kernel, x.dtype))
        return tf.reshape(product, [*sizes(x)[:-1], *kernel.shape[1:]])

    def merge(self, x: tf.Tensor, kernel: Kernel) -> tf.Tensor:
        """[..., N, H] and a kernel [D, N, H] -> [..., D]."""
        flat = _flat(kernel, x.dtype)  # [D, N*H]
        product = tf.matmul(_rows(x, 2), flat, transpose_b=True)
        return tf.reshape(product, [*sizes(x)[:-2], kernel.shape[0]])

    def heads(self, pieces: list, kernels: list) -> list[tf.Tensor]:
        """Rows by each kernel [D, N, H], as [N, B, T, H]; one product.

        Args:
          pieces: [B, T_i, D], T rows together.
          kernels: each with a result of its own.
        """
        product = _joined_product(
            pieces, [_flat(kernel, pieces[0].dtype) for kernel in kernels]
        )  # [B, T, N*H of all]
        tail = [len(kernels), *kernels[0].shape[1:]]
        product = tf.reshape(product, [*sizes(product)[:2], *tail])
        product = tf.transpose(product, [2, 3, 0, 1, 4])
        return tf.unstack(product)  # the gradient of a stack is no copy

    def project_made(
        self, make: Callable, tensors: list, kernel: Kernel, **static
    ) -> tf.Tensor:
        """make(*tensors, **static) [rows, F] and a kernel [F, D] -> [rows, D].

        What is made is not kept: the backward pass makes it again.

        Args:
          make: from `fusion.fused`.
          tensors: its arguments.
          kernel: of the product.
          **static: its other arguments.
        """
        # A cast that changes nothing leaves a variable a variable.
        tensors = [t if t is None else tf.convert_to_tensor(t) for t in tensors]
        present = [i for i, t in enumerate(tensors) if t is not None]

        @tf.custom_gradient
        def run(kernel, *given):
            def gradient(dy):
                upstream = tf.matmul(dy, kernel, transpose_b=True)
                made, found = make.again(upstream, *tensors, **static)
                d_kernel = tf.matmul(made, dy, transpose_a=True)
                return d_kernel, *[found[i] for i in present]

            made = make.forward(*tensors, **static)
            return tf.matmul(made, kernel), gradient

        given = [tensors[i] for i in present]
        return run(_flat(kernel, given[0].dtype), *given)


def _joined_product(pieces, kernels):
    """[B, T_i, D] joined by rows and [D, F_i] joined by columns -> [B, T, F].

    What is joined is not kept: the backward pass joins it again.
    """
    count = len(pieces)

    def joined(given):
        return tf.concat(given[:count], 1), tf.concat(given[count:], 1)

    @tf.custom_gradient
    def run(*given):
        x, kernel = joined(given)
        batch, length, width = sizes(x)

        def gradient(dy):
            with tf.control_dependencies([dy]):
                x, kernel = joined(given)
            dy = _rows(dy, 1)
            d_x = tf.matmul(dy, kernel, transpose_b=True)
            d_x = tf.reshape(d_x, [batch, length, width])
            d_kernel = tf.matmul(_rows(x, 1), dy, transpose_a=True)
            return *_apart(d_x, given[:count]), *_apart(d_kernel, given[count:])

        product = tf.matmul(_rows(x, 1), kernel)
        return tf.reshape(product, [batch, length, kernel.shape[1]]), gradient

    return run(*pieces, *kernels)


def _apart(joined, pieces):
    """Along axis 1; slices, of which those that nobody asks for are not made."""
    first, found = 0, []
    for piece in pieces:
        size = sizes(piece)[1]
        found.append(joined[:, first : first + size])
        first += size
    return found


def _flat(kernel, dtype):
    """A kernel as a matrix, its first axis by the others."""
    kernel = tf.cast(tf.convert_to_tensor(kernel), dtype)
    if kernel.shape.rank == 2:
        return kernel
    return tf.reshape(kernel, [kernel.shape[0], -1])


def _rows(x, axes):
    """x as a matrix whose columns are the last `axes` axes."""
    if x.shape.rank == 2:
        return x
    return tf.reshape(x, [-1, x.shape[-axes:].num_elements()])
