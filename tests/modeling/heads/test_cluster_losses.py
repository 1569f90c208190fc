"""Losses of clusters: every token, one table of gradients."""

import numpy as np
import pytest
import tensorflow as tf

from modeling.heads.cluster_losses import token_losses
from modeling.ops import fused
from tests.modeling.encoders.transformer_xl.toy_models import toy


@pytest.mark.long
def test_clusters_write_their_gradients_into_one_table():
    """Nothing of the table's size stands beside it, and numbers are the same.

    A compiled program has the gradient of a split, a concatenation.
    """
    model = toy(div_val=1)
    table = model.encoder.embeddings.tables[0]
    hidden = tf.random.stateless_normal([2, 8, 10], [1, 3])
    targets = tf.random.stateless_uniform([2, 8], [1, 4], 0, 31, tf.int32)

    def run():
        with tf.GradientTape() as tape:
            losses = model.token_losses(hidden, targets)
            loss = tf.reduce_sum(losses * tf.range(1.0, 9.0))
        return losses, tape.gradient(loss, table)

    def step():
        fused.expect_few_shapes()  # as the encoder does in training
        return run()

    plain = tf.function(step, autograph=False)
    wanted = tf.function(run, autograph=False, jit_compile=True)()
    for ours, theirs in zip(plain(), wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    graph = plain.get_concrete_function().graph
    kinds = [op.type for op in graph.get_operations()]
    assert kinds.count("Empty") == 1
    clusters = len(model.config.cluster_ends) - 1
    assert kinds.count("InplaceUpdate") == clusters > 2
    assert not {"SplitV", "Split", "OneHot"} & set(kinds)
    assert "InplaceSub" in kinds
    # What is exported changes nothing where it lies.
    losses = tf.function(model.token_losses, autograph=False)
    graph = losses.get_concrete_function(hidden, targets).graph.as_graph_def()
    kinds = {node.op for node in graph.node}
    for function in graph.library.function:
        kinds |= {node.op for node in function.node_def}
    assert "Softmax" in kinds and "InplaceSub" not in kinds


@pytest.mark.long
@pytest.mark.parametrize("jit", [False, True])
def test_no_token_is_left_out_whatever_the_clusters(jit):
    """All rows in one cluster, or none, in compiled form with static shapes."""
    table = tf.random.stateless_normal([9, 4], [1, 1])
    bias = tf.random.stateless_normal([9], [1, 2])
    hidden = tf.random.stateless_normal([10, 4], [1, 3])
    targets = tf.random.stateless_uniform([10], [1, 4], 0, 9, tf.int32)
    upstream = tf.random.stateless_normal([10], [1, 5])
    plain = tf.nn.log_softmax(tf.matmul(hidden, table, transpose_b=True) + bias)

    @tf.function(jit_compile=jit, autograph=False)
    def run(active):
        with tf.GradientTape() as tape:
            tape.watch([hidden, table, bias])
            found = token_losses(hidden, table, bias, targets, active, 4)
            loss = tf.reduce_sum(found * upstream)
        return found, tape.gradient(loss, [hidden, table, bias])

    for rows in ([], [3], [0, 1, 2, 3], [1, 4, 5, 8, 9], list(range(10))):
        active = np.isin(np.arange(10), rows)
        found, gradients = run(tf.constant(active))
        wanted = -tf.gather(plain, targets, batch_dims=1) * active
        np.testing.assert_allclose(found, wanted, atol=1e-6)
        with tf.GradientTape() as tape:
            tape.watch([hidden, table, bias])
            logits = tf.matmul(hidden, table, transpose_b=True) + bias
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
                targets, logits
            )
            loss = tf.reduce_sum(losses * upstream * active)
        for ours, theirs in zip(
            gradients, tape.gradient(loss, [hidden, table, bias]), strict=True
        ):
            np.testing.assert_allclose(ours, theirs, atol=1e-5)


@pytest.mark.parametrize("active", [None, np.arange(10) % 3 > 0])
@pytest.mark.parametrize("jit", [False, True])
def test_bfloat16_rounds_gradients_alone(jit, active):
    table = tf.random.stateless_normal([9, 4], [1, 1])
    bias = tf.random.stateless_normal([9], [1, 2])
    hidden = tf.random.stateless_normal([10, 4], [1, 3])
    targets = tf.random.stateless_uniform([10], [1, 4], 0, 9, tf.int32)
    upstream = tf.random.stateless_normal([10], [1, 5])
    active = None if active is None else tf.constant(active)

    @tf.function(jit_compile=jit, autograph=False)
    def run(dtype):
        with tf.GradientTape() as tape:
            tape.watch([hidden, table, bias])
            found = token_losses(
                hidden, table, bias, targets, active, 4, dtype=dtype
            )
            loss = tf.reduce_sum(found * upstream)
        return found, tape.gradient(loss, [hidden, table, bias])

    wanted, exact = run(tf.float32)
    found, gradients = run(tf.bfloat16)
    np.testing.assert_array_equal(found, wanted)
    for ours, theirs in zip(gradients, exact, strict=True):
        assert ours.dtype == tf.float32
        error = np.linalg.norm(ours - theirs) / np.linalg.norm(theirs)
        assert 0 < error < 1e-2, error
    for ours, theirs in zip(run(tf.float16)[1], exact, strict=True):
        np.testing.assert_array_equal(ours, theirs)
