"""Relative attention: the original's, and its written gradient."""

import numpy as np
import pytest
import tensorflow as tf

from modeling.attention import masks, relative
from modeling.attention.attend import Stream
from modeling.attention.positions import shifts
from modeling.ops import dropout
from modeling.ops import fused as fusion
from tests.modeling.golden import golden_util
from tests.modeling.ops.gradient_checks import check_same, value_and_gradients


@pytest.mark.shared
def test_relative_attention(units):
    values = {
        k.removeprefix("rel_attn_core/"): v
        for k, v in units.items()
        if k.startswith("rel_attn_core/")
    }

    def heads_first(x):  # [len, B, N, H] -> [N, B, len, H]
        return tf.transpose(x, [2, 1, 0, 3])

    # One direction per row: the unit's positions differ between rows.
    keys = relative.Keys(
        heads_first(values["k_head_h"]),
        heads_first(values["v_head_h"]),
        heads_first(values["k_head_r"]),
        3,
        5,
    )
    biases = tuple(values[f"r_{n}_bias"] for n in "wrs")
    different = tf.transpose(values["seg_mat"][..., 1], [2, 0, 1])
    mask = tf.transpose(values["attn_mask"][..., 0], [2, 0, 1])
    for name, segments, bias in (
        ("out", different, mask * masks.MASK_VALUE),
        ("out_nomask_noseg", None, 0.0),
    ):
        queries = relative.make_queries(
            tf.transpose(values["q_head"], [1, 0, 2, 3]),
            biases,
            None if segments is None else tf.constant(values["seg_embed"]),
        )
        scores, _ = relative.masked_scores(
            queries, keys, Stream(segments=segments)
        )
        vector = tf.nn.softmax(scores + bias) @ keys.v
        golden_util.assert_close(
            tf.transpose(vector, [2, 1, 0, 3]), values[name], name
        )


RANDOM = np.random.default_rng(3)


@pytest.fixture(autouse=True)
def small_kernels(monkeypatch):
    """Toy tensors are fused, too."""
    monkeypatch.setattr(fusion, "MIN_ELEMENTS", 1)


def random(*shape):
    return tf.constant(RANDOM.normal(size=shape), tf.float32)


def divides_late(attend, tensors) -> bool:
    """Whether a graph of it has no softmax."""
    graph = tf.function(attend).get_concrete_function(*tensors).graph
    functions = graph.as_graph_def().library.function
    nodes = [*graph.as_graph_def().node]
    for function in functions:
        nodes += function.node_def
    return not any(node.op == "Softmax" for node in nodes)


@pytest.mark.long
@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("chosen", [False, True])
@pytest.mark.parametrize("method", ["gather", "radix", "factored"])
def test_attention_and_its_written_gradient(method, chosen, directions):
    n, b, t, k, h, d = 3, 4, 5, 7, 2, 6
    q = 4 if chosen else t
    r = k + t
    factored = method == "factored"
    tensors = [
        random(n, b, q, h),
        random(n, b, q, d if factored else h),
        random(n, b, q, 1),
        random(n, b, k, h),
        random(n, b, k, h),
    ]
    table = random(k, d) if factored else random(n, directions, r, h)
    if not factored:  # factors are constants
        tensors.append(table)
    difference = tf.constant(RANDOM.integers(0, 2, [b, q, k]), tf.float32)
    mask = tf.constant(RANDOM.integers(0, 2, [b, q, k]) * -1e30, tf.float32)
    seed = tf.constant([11, 2])
    rows = None
    if chosen:
        rows = tf.constant(RANDOM.integers(0, t, [b, q]), tf.int32)

    def keys_of(key, value, table):
        return relative.Keys(key, value, table, t, k, method)

    def written(content, position, segment, key, value, table=table):
        return relative.attend(
            relative.Queries(content, position, segment),
            keys_of(key, value, table),
            Stream(mask, difference, rows),
            seed,
            0.2,
        )

    def automatic(content, position, segment, key, value, table=table):
        scores = tf.matmul(content, key, transpose_b=True)
        # Without the batch axis of S: oneDNN's matmul of [3, 1, 20, 6] by
        # [6, 7] writes outside its result.
        lead = [-1] if factored else [n, directions, -1]
        flat = tf.reshape(position, [*lead, position.shape[-1]])
        moved = tf.matmul(flat, table, transpose_b=True)
        moved = tf.reshape(moved, [n, b, q, -1])
        if not factored:
            moved = keys_of(key, value, table).shift(moved, rows)
        scores += moved
        p = tf.nn.softmax(scores + segment * difference + mask)
        return tf.matmul(dropout.masked(p, seed, 0.2), value)

    upstream = random(n, b, q, h)
    check_same(written, tensors, upstream)
    assert (method != "gather") == divides_late(written, tensors)
    for a, b_ in zip(
        tf.nest.flatten(value_and_gradients(written, tensors, upstream)),
        tf.nest.flatten(value_and_gradients(automatic, tensors, upstream)),
        strict=True,
    ):
        np.testing.assert_allclose(a, b_, atol=2e-6)


def test_unshift_is_the_transpose_of_the_shift():
    x, y = random(2, 1, 3, 8), random(2, 1, 3, 5)
    shifted = tf.reduce_sum(shifts.shift_all(x, 5) * y)
    moved = tf.reduce_sum(x * relative._unshift(y, count=8))
    np.testing.assert_allclose(shifted, moved, rtol=1e-5)
