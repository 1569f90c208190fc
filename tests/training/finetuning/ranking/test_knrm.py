"""Fitting K-NRM's weights, features by brute force, early stopping."""

import numpy as np
import pytest

from data.finetuning.ranking import collection as collections
from modeling.heads import kernel_pooling
from training.finetuning.ranking import knrm
from training.finetuning.ranking.options import RankerOptions


def separable(num_layers, noise):
    """Six queries whose better candidates have a larger third feature."""
    rng = np.random.default_rng(0)
    x, pairs = {}, {}
    for q in "abcdef":
        x[q] = rng.normal(size=(8, num_layers, 4)).astype(np.float32)
        grades = np.arange(8) % 3
        x[q][:, 0, 2] = grades * 0.01 + rng.normal(size=8) * noise
        pairs[q] = collections.pairs(grades, 0, 0, q)
    return x, pairs


def test_training_finds_the_feature_and_the_layer():
    x, pairs = separable(2, 0.001)
    options = RankerOptions(seeds=3, epochs=12, learning_rate=0.05)
    trainer = knrm.Trainer(options, 2, 4)
    train = {q: x[q] for q in "abcd"}
    dev = {q: x[q] for q in "ef"}

    def share(values):  # of pairs in the right order
        right = [
            v[p[:, 0]] > v[p[:, 1]]
            for q, v in zip(dev, values, strict=True)
            for p in (pairs[q],)
        ]
        return float(np.concatenate(right).mean())

    first = trainer.fit(train, {q: pairs[q] for q in train}, dev, share)
    learned = knrm.Learned(**first)
    assert learned.layer.tolist() == [0, 0, 0]
    assert (learned.dev > 0.8).all()
    assert (learned.w.argmax(1) == 2).all()
    # The weights are those of plain features, and seeds differ.
    values = [
        kernel_pooling.score(x[q][:, 0], learned.w[0], learned.b[0]).numpy()
        for q in dev
    ]
    assert share(values) == pytest.approx(learned.dev[0])
    assert not np.allclose(learned.w[0], learned.w[1])
    # A trainer that was used before gives the same.
    again = trainer.fit(train, {q: pairs[q] for q in train}, dev, share)
    for name, value in first.items():
        np.testing.assert_array_equal(value, again[name], name)
    # So does one seed without the others beside it; --seed says which.
    for seed in (0, 2):
        alone = knrm.Trainer(
            RankerOptions(seeds=1, epochs=12, learning_rate=0.05), 2, 4, seed
        )
        only = alone.fit(train, {q: pairs[q] for q in train}, dev, share)
        np.testing.assert_allclose(only["w"][0], first["w"][seed], rtol=1e-4)


def test_early_stopping_keeps_the_best_weights_of_each():
    best = knrm._Best((1, 2), patience=2)
    for epoch, dev in enumerate(
        ([0.5, 0.1], [0.4, 0.2], [0.3, 0.1], [0.9, 0.3]), start=1
    ):
        w = np.full((1, 2, 3), epoch, np.float32)
        best.see(epoch, w, w[:, :, 0], np.array([dev]))
    # The first was closed after two passes without a better value.
    assert best.dev.tolist() == [[0.5, 0.3]]
    assert best.w[0, :, 0].tolist() == [1, 4]
    assert best.open.tolist() == [[False, True]]
