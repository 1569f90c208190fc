"""Losses of ranked rows against NumPy: pairs of classes, candidates."""

import numpy as np
import pytest
import tensorflow as tf

from modeling import XLNetConfig
from training.objectives.build import build_objective

# Weights of a size at which what a piece sees changes its probability.
CONFIG = XLNetConfig(
    vocab_size=23,
    d_model=6,
    n_layer=2,
    n_head=2,
    d_head=3,
    d_inner=8,
    init_std=0.7,
)
B, T = 3, 7


def batch_of(rng, **columns):
    """Pairs of rows; the last example pads the batch."""
    batch = {
        "input_ids": rng.integers(9, 23, (B, 2, T)),
        "segment_ids": np.zeros((B, 2, T)),
        "input_mask": np.ones((B, 2, T)),
    }
    batch = {k: np.asarray(v, np.int32) for k, v in batch.items()} | columns
    batch["example_weight"] = np.array([1, 1, 0], np.float32)
    batch["rival"] = np.array([1, 0, 1], np.float32)
    return batch


def tensors(batch):
    return {name: tf.constant(value) for name, value in batch.items()}


def row(batch, *at):
    """One row alone, as an evaluation has it."""
    names = ("input_ids", "segment_ids", "input_mask", "ranks")
    return {k: batch[k][at][np.newaxis] for k in names if k in batch}


def test_pairs_of_classes():
    rng = np.random.default_rng(3)
    objective = build_objective("classification", CONFIG, num_labels=2)
    model = objective.build_model()
    batch = batch_of(rng, label_ids=np.array([0, 1, 0], np.int32))
    logits = np.array(
        [
            [
                objective.predict(model, tensors(row(batch, i, j)))["logits"][0]
                for j in range(2)
            ]
            for i in range(B)
        ],
        np.float64,
    )
    scores = logits[..., 0] - logits[..., 1]
    # A softmax over two rows' scores; alone, the sigmoid's cross-entropy.
    pair = -np.log(np.exp(scores[0, 0]) / np.exp(scores[0]).sum())
    alone = np.log1p(np.exp(scores[1, 0]))  # label 1: the second class
    found = objective.loss(model, tensors(batch), None, False, None)
    assert float(found.loss_sum) == pytest.approx(pair + alone, rel=1e-5)
    assert float(found.weight_sum) == 2
    right = (scores[0, 0] > scores[0, 1]) + (scores[1, 0] < 0)
    assert float(found.metrics["accuracy"][0]) == right


@pytest.mark.long
def test_candidates():
    rng = np.random.default_rng(4)
    objective = build_objective(
        "candidate_ranking", CONFIG, alpha=3.0, beta=0.5
    )
    model = objective.build_model()
    ranks = np.full((B, 2, T), -1, np.int32)
    # The right one has more pieces: it is less probable, so the margin counts.
    ranks[:, 0, 2:5] = [0, 1, 2]
    ranks[:, 1, 2:4] = [0, 1]
    batch = batch_of(rng, ranks=ranks)
    found = np.array(
        [[joint(model, batch, i, j) for j in range(2)] for i in range(B)]
    )
    alone = objective.predict(model, tensors(row(batch, 0, 1)))["logits"]
    np.testing.assert_allclose(alone, found[0, 1:], rtol=1e-5)
    right, wrong = found.T
    margin = np.maximum(0.0, 0.5 + wrong - right)
    assert margin[:2].min() > 0.1
    losses = -right + 3.0 * batch["rival"] * margin
    output = objective.loss(model, tensors(batch), None, False, None)
    assert float(output.loss_sum) == pytest.approx(losses[:2].sum(), rel=1e-5)
    better = (right >= wrong)[:2].sum()
    assert float(output.metrics["accuracy"][0]) == better
    assert float(output.metrics["accuracy"][1]) == 2


def joint(model, batch, i, j):
    """The sum of the factors, each from a call that asks for it alone.

    A piece behind the one that is asked cannot change its factor.
    """
    one = row(batch, i, j)
    ranks, ids = one["ranks"][0], one["input_ids"][0]
    total = 0.0
    for rank, place in enumerate(np.flatnonzero(ranks >= 0)):
        changed = np.where(ranks > rank, 9, ids)[np.newaxis].astype(np.int32)
        output = model(
            tf.constant(changed),
            segment_ids=tf.constant(one["segment_ids"]),
            input_mask=tf.constant(one["input_mask"]),
            ranks=tf.constant(one["ranks"]),
            is_target=tf.constant(one["ranks"] >= 0),
            target_positions=tf.constant([[place]], tf.int32),
            training=False,
        )
        logits = model.lm_logits(output.query_output).numpy()[0, 0]
        logits = logits.astype(np.float64) - logits.max()
        total += logits[ids[place]] - np.log(np.exp(logits).sum())
    return total
