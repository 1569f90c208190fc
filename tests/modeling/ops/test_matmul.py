"""Activations times kernels on CPU and GPU: values and gradients."""

import numpy as np
import pytest
import tensorflow as tf

from modeling.ops import dropout
from modeling.ops import fused as fusion
from modeling.ops.matmul import Matmul

B, T, D, N, H, F = 2, 3, 10, 4, 5, 6


def normal(seed, *shape):
    x = np.random.default_rng(seed).normal(size=shape)
    return tf.constant(x, tf.float32)


def value_and_gradients(function, x, kernel):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    upstream = normal(7, *y.shape)
    return y, *tape.gradient(y, [x, kernel], upstream)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(
    "method, x_shape, kernel_shape, equation",
    [
        ("project", [B, T, D], [D, N, H], "btd,dnh->btnh"),
        ("project", [B, D], [D, F], "bd,df->bf"),
        ("merge", [B, T, N, H], [D, N, H], "btnh,dnh->btd"),
        ("heads", [B, T, D], [D, N, H], "btd,dnh->nbth"),
    ],
)
def test_equal_to_einsum(method, x_shape, kernel_shape, equation, known):
    x, kernel = normal(1, *x_shape), tf.Variable(normal(2, *kernel_shape))
    shape = x_shape if known else [None] * (len(x_shape) - 1) + x_shape[-1:]
    if method == "merge":
        shape[-2:] = x_shape[-2:]

    @tf.function(input_signature=[tf.TensorSpec(shape)], autograph=False)
    def found(x):
        if method == "heads":
            return Matmul().heads([x], [kernel])[0]
        return getattr(Matmul(), method)(x, kernel)

    pairs = zip(
        value_and_gradients(
            lambda x: tf.einsum(equation, x, kernel), x, kernel
        ),
        value_and_gradients(found, x, kernel),
        strict=True,
    )
    for wanted, y in pairs:
        np.testing.assert_allclose(wanted, y, atol=1e-5)


@pytest.mark.parametrize("known", [True, False])
def test_pieces_and_kernels_in_one_matmul(known):
    pieces = [normal(1, B, 2, D), normal(5, B, T, D)]
    kernels = [tf.Variable(normal(seed, D, N, H)) for seed in (2, 3)]
    upstream = [normal(seed, N, B, 2 + T, H) for seed in (8, 9)]
    specs = [
        tf.TensorSpec(piece.shape if known else [B, None, D])
        for piece in pieces
    ]

    def gradients(function, pieces):
        with tf.GradientTape() as tape:
            tape.watch(pieces)
            found = function(pieces)
        return found, tape.gradient(found, [*pieces, *kernels], upstream)

    def wanted(pieces):
        x = tf.concat(pieces, 1)
        return [tf.einsum("btd,dnh->nbth", x, kernel) for kernel in kernels]

    @tf.function(input_signature=specs, autograph=False)
    def step(*pieces):
        return gradients(lambda p: Matmul().heads(p, kernels), list(pieces))

    for a, b in zip(
        tf.nest.flatten(gradients(wanted, pieces)),
        tf.nest.flatten(step(*pieces)),
        strict=True,
    ):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_what_is_joined_is_joined_again_in_the_backward_pass():
    h, memory = normal(1, B, T, D), normal(5, B, 2, D)
    kernels = [tf.Variable(normal(seed, D, N, H)) for seed in (2, 3)]

    def forward():
        return Matmul().heads([memory, h], kernels)

    def backward():
        with tf.GradientTape() as tape:
            tape.watch(h)
            found = forward()
        return tape.gradient(found, [h, *kernels])

    kinds = _operations(forward)
    assert (kinds.count("MatMul"), kinds.count("ConcatV2")) == (1, 2)
    kinds = _operations(backward)
    assert (kinds.count("MatMul"), kinds.count("ConcatV2")) == (3, 4)


@fusion.fused
def _squared_and_dropped(x, bias, seed, rate):
    return dropout.masked(tf.square(x + bias), seed, rate)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("rate", [0.0, 0.4])
def test_what_is_recomputed_is_the_same(monkeypatch, compiled, rate):
    if compiled:
        monkeypatch.setattr(fusion, "MIN_ELEMENTS", 1)
    x, bias = normal(1, 8, F), tf.Variable(normal(2, F))
    kernel = tf.Variable(normal(3, F, D))
    seed = tf.constant([3, 9]) if rate else None
    upstream = normal(4, 8, D)

    def run(function):
        @tf.function(autograph=False)
        def step():
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = function()
            return y, *tape.gradient(y, [x, bias, kernel], upstream)

        return step()

    def kept():
        y = dropout.masked(tf.square(x + bias), seed, rate)
        return tf.matmul(y, kernel)

    def recomputed():
        return Matmul().project_recomputed(
            _squared_and_dropped, [x, bias, seed], kernel, rate=rate
        )

    for a, b in zip(run(kept), run(recomputed), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_what_is_recomputed_is_not_kept():
    """The kernel's gradient computes what it reads from the inputs."""
    x, bias, kernel = normal(1, 8, F), normal(2, F), normal(3, F, D)

    def step():
        with tf.GradientTape() as tape:
            tape.watch(kernel)
            y = Matmul().project_recomputed(
                _squared_and_dropped, [x, bias, None], kernel, rate=0.0
            )
        return tape.gradient(y, kernel)

    assert _operations(step).count("Square") == 2


def _operations(function):
    graph = tf.function(function, autograph=False).get_concrete_function().graph
    return [op.type for op in graph.get_operations()]
