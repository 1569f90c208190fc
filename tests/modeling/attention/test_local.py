"""Local attention in blocks equals dense attention with a mask."""

import numpy as np
import pytest
import tensorflow as tf

from modeling.attention import local, masks, plain
from modeling.attention.attend import ALL
from modeling.ops import fused as fusion

N, B, H = 3, 2, 5


def _heads(length, seed):
    rng = np.random.default_rng(seed)
    return [
        tf.constant(rng.normal(size=[N, B, length, H]).astype(np.float32))
        for _ in range(3)
    ]


def _attend_near(q, k, v, mask):
    return local.LocalKeys(k, v, mask).attend(q, ALL)


@pytest.mark.parametrize("length", [5, 6, 7, 8, 12, 19])
@pytest.mark.parametrize("kind", ["all", "padded", "packed"])
def test_blocks_equal_the_dense_mask(length, kind):
    half = 3
    input_mask = documents = None
    if kind != "all":
        input_mask = np.ones([B, length], np.int32)
        input_mask[1, length - 2 :] = 0
    if kind == "packed":
        documents = np.ones([B, length], np.int32)
        documents[0, length // 2 :] = 2
        documents[1, 2:] = 7
    place = np.arange(length)
    blocked = np.abs(place[:, np.newaxis] - place) > half
    blocked = np.broadcast_to(blocked, [B, length, length]).copy()
    if input_mask is not None:
        blocked |= input_mask[:, np.newaxis] == 0
    if documents is not None:
        blocked |= documents[:, :, np.newaxis] != documents[:, np.newaxis]
    near = local.make_mask(B, length, half, input_mask, documents)
    assert bool(near.blocks) == (length > 2 * half)
    dense = masks.bias(tf.constant(blocked))
    # Rows of padding that see nobody mean nothing.
    rows = (~blocked).any(-1)[np.newaxis, :, :, np.newaxis]
    upstream = tf.constant(
        np.random.default_rng(4).normal(size=[N, B, length, H]) * rows,
        tf.float32,
    )
    found = []
    for attend, mask in ((_attend_near, near), (plain.attend, dense)):
        heads = _heads(length, 2)
        with tf.GradientTape() as tape:
            tape.watch(heads)
            out = attend(*heads, mask)
        found.append((out * rows, *tape.gradient(out, heads, upstream)))
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("length", [12, 14])
def test_compiled_windows_are_the_plain_ones(monkeypatch, dtype, length):
    """Each block of 4 with both others; an element's sum is over its copies."""
    windows = local.Windows(length, 4)
    x = tf.cast(_heads(length, 5)[0], dtype)
    blocks = -(-length // 4)
    padded = np.pad(
        tf.cast(x, tf.float32),
        [[0, 0], [0, 0], [4, 4 * blocks - length + 4], [0, 0]],
    )
    wanted = np.stack(
        [padded[:, :, 4 * i : 4 * i + 12] for i in range(blocks)], 2
    ).reshape(N, -1, 12, H)
    ones = tf.ones([N, B * blocks, 12, H], dtype)
    copies = np.full(length, 3.0)
    copies[:4] -= 1
    copies[4 * (blocks - 1) :] -= 1
    for least in (fusion.MIN_ELEMENTS, 1):
        monkeypatch.setattr(fusion, "MIN_ELEMENTS", least)
        run = tf.function(lambda x, y: (windows.of(x), windows.total(y)))
        made, total = run(x, ones)
        assert made.dtype == total.dtype == dtype
        np.testing.assert_array_equal(tf.cast(made, tf.float32), wanted)
        assert total.shape == x.shape
        counted = tf.cast(total, tf.float32)[0, 0, :, 0]
        np.testing.assert_array_equal(counted, copies)


def test_windows_are_made_again_in_the_backward_pass(monkeypatch):
    made = []
    plain_form = local._with_neighbours

    def counted(x, width):
        made.append(x.shape[2])
        return plain_form(x, width=width)

    monkeypatch.setattr(local, "_with_neighbours", counted)
    heads = _heads(12, 2)
    with tf.GradientTape() as tape:
        tape.watch(heads)
        out = _attend_near(*heads, local.make_mask(B, 12, 3))
    assert made == [12, 12]  # keys and values
    tape.gradient(out, heads)
    assert made == [12] * 4


def test_no_tensor_has_the_square_of_the_length():
    """The largest tensor of a graph grows with T: 4 T / T, not 16."""
    largest = []
    for length in (64, 256):

        @tf.function(autograph=False)
        def run(q, k, v, length=length):
            mask = local.make_mask(B, length, 8)
            with tf.GradientTape() as tape:
                tape.watch([q, k, v])
                out = _attend_near(q, k, v, mask)
            return tape.gradient(out, [q, k, v])

        spec = tf.TensorSpec([N, B, length, H])
        graph = run.get_concrete_function(spec, spec, spec).graph
        sizes = [
            tensor.shape.num_elements() or 0
            for op in graph.get_operations()
            for tensor in op.outputs
            if tensor.shape.is_fully_defined()
        ]
        largest.append(max(sizes))
    assert largest[1] == 4 * largest[0]


def test_the_gradient_of_blocks_has_no_gradient_of_a_slice():
    """That kernel writes element by element, once per part and layer."""

    @tf.function(autograph=False)
    def run(q, k, v):
        mask = local.make_mask(B, 24, 4)
        with tf.GradientTape() as tape:
            tape.watch([q, k, v])
            out = _attend_near(q, k, v, mask)
        return tape.gradient(out, [q, k, v])

    spec = tf.TensorSpec([N, B, 24, H])
    graph = run.get_concrete_function(spec, spec, spec).graph
    kinds = {op.type for op in graph.get_operations()}
    assert "ConcatV2" in kinds and "StridedSliceGrad" not in kinds


def test_dropout_of_probabilities_and_a_row_that_sees_nobody():
    q, k, v = _heads(6, 3)
    mask = tf.fill([B, 6, 6], -1e30)
    out = plain.attend(q, k, v, mask)
    mean = tf.reduce_mean(v, 2, keepdims=True)
    np.testing.assert_allclose(out, tf.broadcast_to(mean, out.shape), atol=1e-5)
    seed = tf.constant([1, 2])
    one = plain.attend(q, k, v, None, seed, 0.5)
    np.testing.assert_array_equal(one, plain.attend(q, k, v, None, seed, 0.5))
    assert np.abs(one - plain.attend(q, k, v)).max() > 0.1
    with tf.GradientTape() as tape:
        tape.watch(v)
        out = tf.reduce_sum(plain.attend(q, k, v, None, seed, 0.5))
    slope = tape.gradient(out, v)
    # The output is linear in v: the gradient times v is the output.
    np.testing.assert_allclose(tf.reduce_sum(slope * v), out, rtol=1e-4)
