"""Fitting K-NRM's weights, features by brute force, early stopping."""

import numpy as np
import pytest
import tensorflow as tf

from common.errors import UserError
from data.finetuning.ranking import collection as collections
from data.finetuning.ranking.documents import Document
from data.finetuning.ranking.folds import Fold
from data.finetuning.ranking.options import RankingDataOptions
from data.text.tokenizer import Tokenizer
from modeling.heads import kernel_pooling
from modeling.heads.kernel_pooling import Kernels
from training.finetuning.ranking import knrm, shards, vectors
from training.finetuning.ranking.folded import Task
from training.finetuning.ranking.kernel_features import (
    FIRES,
    FeatureMaker,
    idf,
)
from training.finetuning.ranking.options import RankerOptions
from training.finetuning.ranking.units import Units


def plain_features(query, document, weights, kernels):
    """phi of one pair in float64, piece by piece."""
    phi = []
    for mu, sigma in zip(kernels.mu, kernels.sigma, strict=True):
        total = 0.0
        for q, n in zip(query, weights, strict=True):
            soft = 0.0
            for d in document:
                cosine = q @ d / np.linalg.norm(q) / np.linalg.norm(d)
                soft += np.exp(-((cosine - mu) ** 2) / (2 * sigma**2))
            total += n * np.log(max(soft, 1e-10))
        phi.append(0.01 * total)
    return phi


@pytest.mark.shared
@pytest.mark.parametrize("center", [False, True])
def test_features_by_brute_force(tmp_path, spiece_model, center):
    tokenizer = Tokenizer(spiece_model)
    rng = np.random.default_rng(1)
    table = rng.normal(size=(tokenizer.vocab_size, 5)) + 0.3
    source = vectors.TableVectors(table)
    texts = ["the river in winter", "", "a market of the school", "winter"]
    documents = [Document(f"d{i}", t, "f", i) for i, t in enumerate(texts)]
    embedder = shards.Embedder(source, tokenizer, str(tmp_path), "float32")
    embedder.documents_per_shard = lambda length: 2
    said = []
    found = embedder.documents(
        iter(documents), {"d0", "d1", "d2", "d3"}, 6, said.append
    )
    assert [s.names for s in found] == [("d0", "d1"), ("d2", "d3")]
    queries = embedder.shard("queries", ["q"], ["winter school"], 4)
    kernels = Kernels.even(4, 0.01)
    units = Units(tokenizer)
    maker = FeatureMaker(
        source, kernels, center, True, str(tmp_path / "f"), units
    )
    run = {"q": {"d3": 2.0, "d1": 1.0, "d0": 0.5}}
    features = maker.make(found, queries, run, said.append)
    assert features.names == {"q": ["d3", "d1", "d0"]}
    ids = [tokenizer.encode(t)[:6] for t in texts]
    own = tokenizer.encode("winter school")[:4]
    mean = table[sum(ids, [])].mean(0) if center else 0.0
    counts = [sum(piece in row for row in ids) for piece in own]
    weights = [idf(count, len(ids)) for count in counts]
    for place, i in enumerate((3, 1, 0)):
        np.testing.assert_allclose(
            features.phi["q"][place, 0],
            plain_features(
                table[own] - mean, table[ids[i]] - mean, weights, kernels
            ),
            rtol=2e-4,
            atol=2e-5,
        )
    pieces = len(ids[3]) + len(ids[0])
    statistics = features.statistics
    assert statistics.histogram.sum() == pieces * len(own)
    assert statistics.looked == 3 * len(own)
    assert statistics.mass_shares().sum() == pytest.approx(1.0)
    assert 0 < statistics.firing_rates()[0, 0] < 1
    assert FIRES < 1
    # The same again is read, not computed.
    maker.make(found, queries, run, said.append)
    assert said[-1].endswith("2 of 2 shards from an earlier run")
    # Stop words are in neither text, and count nowhere.
    found = embedder.documents(
        iter(documents), {"d0", "d1", "d2", "d3"}, 40, said.append
    )
    queries = embedder.shard("queries", ["q"], ["winter school"], 40)
    units = Units(tokenizer, "word", ("the", "in", "of", "a"))
    maker = FeatureMaker(source, kernels, False, True, str(tmp_path), units)
    features = maker.make(found, queries, run, said.append)
    assert maker.counts[0] == {
        "river": 1,
        "winter": 2,
        "market": 1,
        "school": 1,
    }
    assert features.statistics.looked == 3 * 2
    words = [
        [tokenizer.encode(w) for w in t.split()]
        for t in ("winter school", "winter")
    ]
    vectors_of = [[table[ids].mean(0) for ids in text] for text in words]
    weights = [idf(maker.counts[0][w], 4) for w in ("winter", "school")]
    np.testing.assert_allclose(
        features.phi["q"][0, 0],
        plain_features(*vectors_of, weights, kernels),
        rtol=2e-4,
        atol=2e-5,
    )


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
    # So does one seed without the others beside it.
    alone = knrm.Trainer(
        RankerOptions(seeds=1, epochs=12, learning_rate=0.05), 2, 4
    )
    only = alone.fit(train, {q: pairs[q] for q in train}, dev, share)
    np.testing.assert_allclose(only["w"][0], first["w"][0], rtol=1e-4)


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


def test_no_pair_to_learn_from_is_said():
    options = RankingDataOptions("topics", "documents", "qrels")
    judged = {"a": {"d": 1, "e": 1}}
    found = collections.Collection({"a": "text"}, judged, options)
    run = {"a": {"d": 2.0, "e": 1.0}}
    fold = Fold(("a",), (), ())
    task = Task(found, run, [fold], RankerOptions(), "rankers")
    with pytest.raises(UserError, match="no training query has candidates"):
        task.pairs(fold, run)


def test_pairs_are_drawn_by_query_and_seed_alone():
    grades = np.array([0, 2, -1, 1, 0, 1])
    every = collections.pairs(grades, 0, 0, "q")
    assert {tuple(p) for p in every} == {
        (1, 0), (1, 3), (1, 4), (1, 5), (3, 0), (3, 4), (5, 0), (5, 4)
    }  # fmt: skip
    some = collections.pairs(grades, 3, 0, "q")
    assert len(some) == 3
    assert {tuple(p) for p in some} < {tuple(p) for p in every}
    np.testing.assert_array_equal(some, collections.pairs(grades, 3, 0, "q"))
    drawn = {
        collections.pairs(grades, 3, s, q).tobytes()
        for s in (0, 1)
        for q in "qr"
    }
    assert len(drawn) > 1


@pytest.mark.slow
@pytest.mark.shared
def test_every_encoder_gives_a_vector_per_piece(spiece_model):
    from modeling.encoders import registry
    from modeling.heads.classification import ClassificationModel

    tokenizer = Tokenizer(spiece_model)
    rows = [np.asarray(tokenizer.encode(t)) for t in ("a b c", "", "winter")]
    sizes = {"vocab_size": tokenizer.vocab_size, "d_model": 8, "n_layer": 2}
    sizes |= {"n_head": 2, "d_inner": 12}
    own = {"xlnet": {"d_head": 4}, "albert": {"embedding_size": 5}}
    read = 0
    for name, row in registry.ENCODERS.items():
        if row.capabilities.layout == "stream":
            continue
        read += 1
        config = registry.config_from_dict(
            sizes | own.get(name, {}) | {"model_type": name}
        )
        tf.keras.utils.set_random_seed(0)
        model = ClassificationModel(config.with_memory(None), num_labels=1)
        source = vectors.EncoderVectors(model, tokenizer.symbols, (0, 2), 2)
        found = source.embed(rows)
        count = sum(map(len, rows))
        assert found.shape == (2, count, 8), name
        alone = source.embed([rows[2]])
        np.testing.assert_allclose(
            found[:, -len(rows[2]) :], alone, atol=1e-5, err_msg=name
        )
        assert not np.allclose(found[0], found[1])
        assert np.abs(found[1]).sum(-1).min() > 0
    assert read >= 4


def test_an_encoder_of_streams_is_refused():
    from modeling.encoders.transformer_xl.config import TransformerXLConfig

    config = TransformerXLConfig(
        vocab_size=30, d_model=8, n_layer=1, n_head=2, d_head=4, d_inner=12
    )
    options = RankerOptions(layer="0")
    with pytest.raises(UserError, match="transformer_xl reads streams"):
        vectors.open_encoder(config, None, None, options)
