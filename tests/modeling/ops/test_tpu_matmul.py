"""Activations times kernels on TPU: values, gradients, number of casts."""

import re

import numpy as np
import pytest
import tensorflow as tf

from modeling.ops.tpu_matmul import TpuMatmul

S, B, Q, D, N, H = 2, 3, 5, 10, 4, 7
CASES = {
    "project": ([B, Q, D], [D, N, H], "bqd,dnh->bqnh"),
    "merge": ([B, Q, N, H], [D, N, H], "bqnh,dnh->bqd"),
    "rows": ([B * Q, D], [D, H], "bd,dh->bh"),
    "by_head": ([N, S * B, Q, H], [S, D, N, H], "nsbqh,sdnh->nsbqd"),
}


def run(product, x, kernel, upstream):
    """The product and its gradients for x and the kernel, compiled."""

    @tf.function(jit_compile=True, autograph=False)
    def step(x, upstream):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = product(x)
        return y, *tape.gradient(y, [x, kernel], upstream)

    return step(x, upstream), step


def normal(seed, shape, dtype=tf.float32):
    x = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    return tf.cast(x, dtype)


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16])
def test_equal_to_einsum(case, dtype):
    x_shape, kernel_shape, equation = CASES[case]
    x, kernel = (
        normal(1, x_shape, dtype),
        tf.Variable(normal(2, kernel_shape)),
    )
    method = case if case in ("merge", "by_head") else "project"

    def expected(x):
        parted = tf.reshape(x, [N, S, B, Q, H]) if case == "by_head" else x
        y = tf.einsum(equation, parted, tf.cast(kernel, dtype))
        return tf.reshape(y, [N, S * B, Q, D]) if case == "by_head" else y

    def found(x):
        y = getattr(TpuMatmul(x), method)(x, kernel)
        return tf.concat(y, -1) if case == "by_head" else y

    upstream = normal(3, expected(x).shape, dtype)
    (a, _), (b, _) = (run(f, x, kernel, upstream) for f in (expected, found))
    rounded = 3e-2 if case == "by_head" else 2e-2  # its dx is a sum of halves
    tolerance = 1e-5 if dtype == tf.float32 else rounded
    assert [t.dtype for t in b] == [dtype, dtype, tf.float32]
    for left, right in zip(a, b, strict=True):
        np.testing.assert_allclose(
            tf.cast(left, tf.float32),
            tf.cast(right, tf.float32),
            atol=tolerance,
            rtol=tolerance,
        )


def test_a_kernel_is_cast_once_in_each_direction():
    """Two streams share the kernel; the backward pass has its own cast."""
    x = normal(1, [B, D], tf.bfloat16)
    kernel = tf.Variable(normal(2, [D, D]))

    def both(x):
        matmul = TpuMatmul(x)
        return matmul.project(tf.tanh(matmul.project(x, kernel)), kernel)

    _, step = run(both, x, kernel, x)
    hlo = step.experimental_get_compiler_ir(x, x)(stage="hlo")
    casts = re.findall(rf"bf16\[{D},{D}\]\S* convert", hlo)
    assert len(casts) == 2
    assert hlo.count("opt-barrier(") == 2
