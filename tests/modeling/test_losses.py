"""Cross-entropy of rows, and its gradient, against float64."""

import numpy as np
import pytest
import tensorflow as tf

from modeling import losses
from modeling.ops import fused as fusion
from tests.modeling.golden import golden_util

V = 11
SHAPES = [(5,), (3, 4), (2, 3, 4)]


def wanted(logits, targets, upstream):
    """(losses, gradient of the logits), float64."""
    z = np.asarray(logits, np.float64)
    z = z - z.max(-1, keepdims=True)
    log_p = z - np.log(np.exp(z).sum(-1, keepdims=True))
    hit = np.eye(z.shape[-1])[targets]
    return -(log_p * hit).sum(-1), (np.exp(log_p) - hit) * upstream[..., None]


def value_and_gradient(logits, targets, upstream):
    with tf.GradientTape() as tape:
        tape.watch(logits)
        found = losses.token_losses(logits, targets)
    return found, tape.gradient(found, logits, upstream)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("ids", [np.int32, np.int64])
@pytest.mark.parametrize("graph", [False, True])
def test_values_and_gradients(shape, ids, graph, monkeypatch):
    monkeypatch.setattr(fusion, "MIN_ELEMENTS", 1)  # fused in graphs
    random = np.random.default_rng(5)
    logits = random.normal(0, 3, [*shape, V]).astype(np.float32)
    targets = random.integers(0, V, shape).astype(ids)
    upstream = random.normal(size=shape).astype(np.float32)
    run = (
        tf.function(value_and_gradient, autograph=False)
        if graph
        else value_and_gradient
    )
    found = run(tf.constant(logits), tf.constant(targets), upstream)
    for a, b in zip(found, wanted(logits, targets, upstream), strict=True):
        assert a.dtype == tf.float32
        np.testing.assert_allclose(a, b, atol=1e-6, rtol=1e-6)


def test_logits_of_any_size():
    logits = np.asarray(
        [[0.0, 0.0, 0.0], [80.0, -80.0, 0.0], [-1e4, 1e4, 0.0], [1e30, 0, 0]],
        np.float32,
    )
    targets = np.asarray([2, 1, 0, 0])
    upstream = np.asarray([1.0, 2.0, -0.5, 1.0], np.float32)
    found = value_and_gradient(tf.constant(logits), targets, upstream)
    for a, b in zip(found, wanted(logits, targets, upstream), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16])
@pytest.mark.parametrize("shape", SHAPES)
def test_known_places_of_the_largest_logits_change_no_bit(shape, dtype):
    random = np.random.default_rng(8)
    logits = tf.constant(random.normal(0, 3, [*shape, V]), tf.float32)
    logits = tf.round(logits)  # with several largest ones in a row
    logits = tf.cast(logits, dtype)
    targets = tf.constant(random.integers(0, V, shape), tf.int32)
    best = tf.argmax(logits, -1, tf.int32)
    found = losses.token_losses(logits, targets, best)
    np.testing.assert_array_equal(found, losses.token_losses(logits, targets))


@pytest.mark.parametrize("jit", [False, True])
def test_sums_of_rows_need_the_places_once(jit):
    random = np.random.default_rng(9)
    logits = tf.constant(random.normal(size=[6, V]), tf.float32)
    targets = tf.constant(random.integers(0, V, 6), tf.int32)
    weights = tf.constant([1.0, 0.0, 2.0, 1.0, 0.5, 1.0])
    run = tf.function(losses.weighted_sums, jit_compile=jit, autograph=False)
    loss, weight, right = run(logits, targets, weights)
    rows, _ = wanted(logits, targets.numpy(), np.ones(6))
    hits = logits.numpy().argmax(-1) == targets.numpy()
    np.testing.assert_allclose(loss, rows @ weights.numpy(), rtol=1e-6)
    assert weight == 5.5
    assert right == hits @ weights.numpy()
    graph = run.get_concrete_function(logits, targets, weights).graph
    kinds = [op.type for op in graph.get_operations()]
    assert kinds.count("ArgMax") == 1
    assert kinds.count("Max") == (2 if jit else 0)


def test_low_precision_logits_count_in_float32():
    random = np.random.default_rng(6)
    logits = tf.cast(random.normal(size=[4, V]), tf.bfloat16)
    targets, upstream = np.arange(4), np.ones(4, np.float32)
    loss, gradient = value_and_gradient(logits, targets, upstream)
    value = tf.cast(logits, tf.float32).numpy()
    expected = wanted(value, targets, upstream)
    assert loss.dtype == tf.float32 and gradient.dtype == tf.bfloat16
    np.testing.assert_allclose(loss, expected[0], atol=1e-6)
    rounded = tf.cast(expected[1].astype(np.float32), tf.bfloat16)
    np.testing.assert_allclose(
        tf.cast(gradient, tf.float32),
        tf.cast(rounded, tf.float32),
        rtol=2**-7,
        atol=1e-6,
    )


def test_rows_without_weight_have_no_gradient():
    logits = tf.constant(np.random.default_rng(7).normal(size=[3, V]))
    logits = tf.cast(logits, tf.float32)
    targets, weights = tf.constant([1, 2, 3]), tf.constant([1.0, 0.0, 1.0])
    with tf.GradientTape() as tape:
        tape.watch(logits)
        total = losses.weighted_sums(logits, targets, weights)[0]
    gradient = tape.gradient(total, logits).numpy()
    assert not gradient[1].any()
    assert gradient[0].any() and gradient[2].any()
    np.testing.assert_allclose(gradient.sum(-1), 0.0, atol=1e-6)


@pytest.mark.shared
def test_lm_loss(units):
    logits = units["lm_loss/hidden"] @ units["lm_loss/table"].T
    loss = losses.token_losses(
        logits + units["lm_loss/bias"], units["lm_loss/target"]
    )
    golden_util.assert_close(loss, units["lm_loss/loss"])


@pytest.mark.parametrize("chunk_size", [2, 5])
def test_chunks_in_bfloat16_round_gradients_alone(chunk_size):
    hidden = tf.random.stateless_normal([7, 6], [1, 1])
    table = tf.random.stateless_normal([V, 6], [1, 2])
    bias = tf.random.stateless_normal([V], [1, 3])
    targets = tf.random.stateless_uniform([7], [1, 4], 0, V, tf.int32)
    weights = tf.constant([1.0, 0.0, 2.0, 1.0, 1.0, 0.5, 1.0])

    def run(dtype):
        with tf.GradientTape() as tape:
            tape.watch([hidden, table, bias])
            sums = losses.chunked_lm_sums(
                hidden, table, bias, targets, weights, chunk_size, dtype
            )
        return sums, tape.gradient(sums[0], [hidden, table, bias])

    (wanted, exact), (found, gradients) = run(tf.float32), run(tf.bfloat16)
    np.testing.assert_array_equal(found, wanted)
    for ours, theirs in zip(gradients[:2], exact[:2], strict=True):
        error = np.linalg.norm(ours - theirs) / np.linalg.norm(theirs)
        assert 0 < error < 1e-2, error
    np.testing.assert_array_equal(gradients[2], exact[2])
