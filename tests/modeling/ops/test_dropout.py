"""Masks of dropout: the same in every form, their rate, their sites."""

import numpy as np
import pytest
import tensorflow as tf

from modeling.ops import dropout
from modeling.ops import fused as fusion


@pytest.fixture(autouse=True)
def small_kernels(monkeypatch):
    """Toy tensors are fused, too."""
    monkeypatch.setattr(fusion, "MIN_ELEMENTS", 1)


def test_dropout_masks_are_the_same_fused_and_plain():
    x = tf.ones([40, 50])
    seed = tf.constant([123456789, -5])
    eager = dropout.dropout(x, 0.4, seed, 3)
    graph = tf.function(
        lambda: dropout.dropout(x, 0.4, seed, 3), autograph=False
    )()
    np.testing.assert_array_equal(eager, graph)
    assert set(np.unique(eager)) == {0.0, np.float32(1 / 0.6)}


def test_dropout_keeps_the_rate_and_sites_are_independent():
    x = tf.ones([1000, 1000])
    kept = {
        (seed, site): (
            dropout.dropout(x, 0.1, tf.constant([seed, 9]), site).numpy() > 0
        )
        for seed in (0, 1)
        for site in (0, 1)
    }
    sigma = np.sqrt(0.1 * 0.9 / 1e6)
    for mask in kept.values():
        assert abs(mask.mean() - 0.9) < 4 * sigma
        # Neighbours in both directions, and a stride of a power of two.
        for a, b in (
            (mask[1:], mask[:-1]),
            (mask[:, 1:], mask[:, :-1]),
            (mask[:, 64:], mask[:, :-64]),
        ):
            assert abs((a & b).mean() - 0.81) < 4e-4 * 4
    masks = list(kept.values())
    for i in range(4):
        for j in range(i):
            both = (masks[i] & masks[j]).mean()
            assert abs(both - 0.81) < 4e-4 * 4


def test_dropout_is_unbiased_over_seeds_at_one_place():
    seeds = [tf.constant([s, 3]) for s in range(400)]
    x = tf.ones([3, 7])
    mean = np.mean([dropout.dropout(x, 0.25, s, 2) for s in seeds], 0)
    np.testing.assert_allclose(mean, 1.0, atol=0.12)


def test_a_site_adds_a_call_and_few_operations_to_a_graph(monkeypatch):
    """The hashes of all sites are one function per rank."""
    monkeypatch.setattr(fusion, "MIN_ELEMENTS", 2**18)

    @tf.function(autograph=False)
    def run(x, seed):
        for site in range(5):
            x = dropout.dropout(x, 0.1, seed, site)
        return x

    graph = run.get_concrete_function(
        tf.TensorSpec([3, 4, 5]), tf.TensorSpec([2], tf.int32)
    ).graph
    operations = graph.get_operations()
    calls = [op for op in operations if "PartitionedCall" in op.type]
    assert len(calls) == 5
    assert len({op.get_attr("f").name for op in calls}) == 1
    assert len(operations) <= 3 + 5 * 10
