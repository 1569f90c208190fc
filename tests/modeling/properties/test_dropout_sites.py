"""Every place that drops has a seed and a rate of its own."""

import collections

import numpy as np
import pytest
import tensorflow as tf

from modeling import (
    ClassificationModel,
    PretrainingModel,
    SpanModel,
    XLNetConfig,
)
from modeling.encoders.transformer_xl.backbone import TransformerXLModel
from modeling.encoders.transformer_xl.config import TransformerXLConfig
from modeling.ops import dropout

B, T, P, M = 2, 5, 3, 4
CONFIG = XLNetConfig(
    vocab_size=19,
    d_model=6,
    n_layer=2,
    n_head=3,
    d_head=4,
    d_inner=11,
    mem_len=M,
    dropout=0.1,
    dropatt=0.2,
    activation_dropout=0.3,
)
IDS = np.arange(B * T).reshape(B, T)
POSITIONS = [[0, 2, 4], [1, 3, 4]]
SEED = (5, 6)  # a tensor would start TensorFlow at import


@pytest.fixture
def dropped(monkeypatch):
    """(shape, rate, seed) of every tensor that is dropped, eagerly."""
    found = []
    plain = dropout.masked

    def masked(x, seed, rate, **static):
        if seed is not None and rate:
            found.append((tuple(x.shape), rate, tuple(seed.numpy())))
        return plain(x, seed, rate)

    monkeypatch.setattr(dropout, "masked", masked)
    monkeypatch.setattr(dropout, "_apply", masked)
    return found


def pretraining():
    model = PretrainingModel(CONFIG)
    model(IDS, target_positions=POSITIONS, training=True, seed=SEED)


def classification():
    model = ClassificationModel(CONFIG, 2, summary_type="attn")
    model(IDS, training=True, seed=SEED)


def spans():
    model = SpanModel(CONFIG)
    model(IDS, start_positions=[1, 2], training=True, seed=SEED)


@pytest.mark.parametrize(
    "run, places",
    [
        # Per layer and stream 4; embeddings and outputs of both, positions.
        (pretraining, 2 * 2 * 4 + 5),
        # The summary's probabilities, its attention and its projection.
        (classification, 2 * 4 + 3 + 3),
        (spans, 2 * 4 + 3 + 1),
    ],
)
def test_no_two_places_share_a_seed(dropped, run, places):
    run()
    seeds = collections.Counter(seed for _, _, seed in dropped)
    assert [seed for seed, count in seeds.items() if count > 1] == []
    # Only the backward pass makes a mask again, and there is none.
    assert len(dropped) == places


def test_every_place_has_its_rate(dropped):
    pretraining()
    rates = collections.Counter((shape, rate) for shape, rate, _ in dropped)
    n, d, f, layers = 3, 6, 11, 2
    table = (1, 2 * T, d)  # relative positions
    assert rates == {
        ((n, B, T, T), 0.2): layers,
        ((n, B, P, T), 0.2): layers,
        ((B * T, f), 0.3): layers,
        ((B * P, f), 0.3): layers,
        ((B * T, d), 0.1): layers,
        ((B * P, d), 0.1): layers,
        # After attention; embeddings; the final output.
        ((B, T, d), 0.1): layers + 2,
        ((B, P, d), 0.1): layers + 2,
        (table, 0.1): 1,
    }


def test_the_heads_have_their_rates(dropped):
    classification()
    n, d = 3, 6
    head = [place[:2] for place in dropped[-3:]]
    assert head == [((B, n, T), 0.2), ((B, d), 0.1), ((B, d), 0.1)]


def test_another_seed_moves_every_place(dropped):
    model = PretrainingModel(CONFIG)
    for seed in ([5, 6], [5, 7], [6, 6]):
        model(IDS, target_positions=POSITIONS, training=True, seed=seed)
    seeds = [seed for _, _, seed in dropped]
    assert len(set(seeds)) == len(seeds)


def test_nothing_drops_in_evaluation(dropped):
    model = ClassificationModel(CONFIG, 2, summary_type="attn")
    model(IDS, training=False, seed=SEED)
    assert dropped == []


def test_what_is_kept_is_scaled_and_a_share_is_dropped():
    x = tf.ones([40, 500])
    y = dropout.masked(x, tf.constant([1, 2]), 0.2).numpy()
    assert set(np.unique(y)) == {np.float32(0.0), np.float32(1.25)}
    assert abs((y == 0).mean() - 0.2) < 0.01


def left_to_right(**rates):
    sizes = dict(d_model=6, n_layer=2, n_head=3, d_head=4, d_inner=11)
    return TransformerXLModel(
        TransformerXLConfig(vocab_size=19, **(sizes | rates))
    )


def test_variational_dropout_has_one_mask_for_all_positions(monkeypatch):
    x = tf.ones([2 * 30, 400])
    y = dropout.masked(x, tf.constant([1, 2]), 0.3, texts=2).numpy()
    first, second = y[:30], y[30:]
    assert (first == first[0]).all() and (second == second[0]).all()
    assert 0.4 < (first[0] == second[0]).mean() < 0.75
    assert abs((y == 0).mean() - 0.3) < 0.06
    # Everywhere but on probabilities; the position table is one text.
    plain, found = dropout.masked, collections.Counter()

    def masked(x, seed, rate, texts=None, **static):
        if seed is not None and rate:
            found[(*x.shape, texts)] += 1
        return plain(x, seed, rate, texts)

    monkeypatch.setattr(dropout, "masked", masked)
    monkeypatch.setattr(dropout, "_apply", masked)
    model = left_to_right(dropatt=0.2, variational_dropout=True)
    model(IDS, training=True, seed=SEED)
    assert found == {
        (3, B, T, T, None): 2,
        (B * T, 11, B): 2,
        (B * T, 6, B): 2,
        (B, T, 6, B): 2 + 2,
        (1, T + 1, 6, 1): 1,
    }


def test_word_dropout_drops_all_occurrences_of_a_word():
    model = left_to_right(dropout=0.0, word_dropout=0.5)
    ids = np.arange(400).reshape(8, 50) % 19
    gone = {}
    for seed in (SEED, (5, 7)):
        output = model(ids, training=True, seed=seed, output_hidden_states=True)
        zero = (output.hidden_states[0].numpy() == 0).all(-1)
        gone[seed] = {i for i in range(19) if zero[ids == i].all()}
        assert {*ids[zero]} == gone[seed]
        kept = ~zero
        rows = model.embeddings(ids).numpy()[kept] * 2.0
        np.testing.assert_allclose(
            output.hidden_states[0].numpy()[kept], rows, rtol=1e-6
        )
    assert gone[SEED] != gone[5, 7] and all(
        3 < len(g) < 16 for g in gone.values()
    )
    evaluated = model(ids, output_hidden_states=True).hidden_states[0].numpy()
    assert not (evaluated == 0).all(-1).any()
