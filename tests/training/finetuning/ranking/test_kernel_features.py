"""Kernel features of candidates: by brute force, kept by shard, and summed."""

import numpy as np
import pytest

from data.finetuning.ranking.documents import Document
from data.text.tokenizer import Tokenizer
from modeling.heads.kernel_pooling import Kernels
from tests.training.finetuning.ranking.toy import Letters
from training.finetuning.ranking import kernel_features, shards, vectors
from training.finetuning.ranking.kernel_features import (
    FIRES,
    FeatureMaker,
    Statistics,
    idf,
)
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


TABLE = np.random.default_rng(3).normal(size=(26, 4))
KERNELS = Kernels.even(3, 0.01)
TEXTS = {"d1": "abca", "d2": "", "d3": "cc", "d4": "dba"}
ASKED = {"q1": "ab", "q2": "c", "q3": "xyz"}


def make(folder, run, center=False, idf=False, size=2, texts=TEXTS):
    """Features of the run's pairs, what is said, and their maker."""
    source = vectors.TableVectors(TABLE)
    embedder = shards.Embedder(source, Letters(), str(folder / "v"), "float32")
    embedder.documents_per_shard = lambda length: size
    documents = (
        Document(n, t, "f", i) for i, (n, t) in enumerate(texts.items())
    )
    found = embedder.documents(documents, set(texts), 9, str)
    queries = embedder.shard("queries", [*ASKED], [*ASKED.values()], 9)
    maker = FeatureMaker(
        source, KERNELS, center, idf, str(folder / "f"), Units(Letters())
    )
    said = []
    return maker.make(found, queries, run, said.append), said, maker


RUN = {
    "q2": {"d4": 3.0, "d1": 2.0, "d2": 1.0},
    "q1": {"d1": 9.0, "d3": 1.0},
    "q3": {"d3": 2.0, "d4": 1.0},
}


@pytest.mark.long
def test_each_pair_has_the_features_that_it_has_alone(tmp_path):
    """Whatever shard its document is in, and whatever stands beside it."""
    features, said, _ = make(tmp_path, RUN)
    assert features.names == {q: [*scores] for q, scores in RUN.items()}
    assert said[0].startswith("features of 7 pairs, 0 of 2 shards from an ear")
    total = 0.0
    for query, names in features.names.items():
        for place, name in enumerate(names):
            one = {query: {name: 1.0}}
            alone, _, _ = make(tmp_path, one, size=1)
            np.testing.assert_allclose(
                features.phi[query][place], alone.phi[query][0], atol=1e-6
            )
            np.testing.assert_allclose(
                features.cosine[query][place], alone.cosine[query][0], atol=1e-6
            )
            total = total + alone.statistics.histogram
    np.testing.assert_array_equal(features.statistics.histogram, total)
    # A text without pieces is like no query.
    assert features.cosine["q2"][2] == 0.0
    ids = [[ord(c) - 97 for c in t] for t in (ASKED["q1"], TEXTS["d1"])]
    means = [TABLE[i].mean(0) for i in ids]
    wanted = means[0] @ means[1] / np.prod([np.linalg.norm(m) for m in means])
    assert features.cosine["q1"][0, 0] == pytest.approx(wanted, abs=1e-5)


def test_a_shard_is_computed_again_where_its_pairs_or_the_rest_change(tmp_path):
    make(tmp_path, RUN)

    def reused(run=RUN, **changes):
        _, said, _ = make(tmp_path, run, **changes)
        return said[0].split(" pairs, ")[1].split(" shards")[0]

    assert reused() == "2 of 2"
    # d1 and d2 are of the first shard, d3 and d4 of the second.
    more = RUN | {"q3": RUN["q3"] | {"d2": 0.5}}
    assert reused(more) == "1 of 2"
    assert reused(idf=True) == "0 of 2"
    assert reused(idf=True) == "2 of 2"
    other = TEXTS | {"d4": "dbb"}
    assert reused(texts=other) == "1 of 2"
    # idf and the mean are of all documents.
    assert reused(texts=other, idf=True) == "0 of 2"
    assert reused(texts=other, center=True) == "0 of 2"


def test_features_are_named_by_all_that_they_depend_on(tmp_path):
    plain = make(tmp_path, RUN)[0].digest
    assert make(tmp_path, RUN)[0].digest == plain
    others = [
        make(tmp_path, RUN, center=True)[0].digest,
        make(tmp_path, RUN, idf=True)[0].digest,
        make(tmp_path, RUN, texts=TEXTS | {"d4": "a"})[0].digest,
    ]
    assert len({plain, *others}) == 4


def test_rare_pieces_weigh_more():
    """By hand, and as BM25 has it: never below 0."""
    assert idf(0, 3) == pytest.approx(np.log(1 + 3.5 / 0.5))
    assert idf(2, 3) == pytest.approx(np.log(1 + 1.5 / 2.5))
    values = [idf(count, 9) for count in range(10)]
    assert values == sorted(values, reverse=True) and values[-1] > 0


def test_weights_of_queries_are_counted_over_documents(tmp_path):
    _, _, maker = make(tmp_path, RUN, idf=True)
    a, x = 0, 23  # in two of four documents, d1 twice; in none
    np.testing.assert_allclose(
        maker.weights([a, x, a]), [idf(2, 4), idf(0, 4), idf(2, 4)], rtol=1e-6
    )
    _, _, maker = make(tmp_path, RUN)
    assert maker.weights([a, x]).tolist() == [1.0, 1.0]


def test_shares_of_what_the_kernels_saw():
    seen = Statistics(
        np.zeros((2, 40)),
        np.array([[1.0, 3.0], [0.0, 0.0]]),
        np.array([[2.0, 8.0], [0.0, 4.0]]),
        8.0,
    )
    assert seen.mass_shares().tolist() == [[0.25, 0.75], [0.0, 0.0]]
    assert seen.firing_rates().tolist() == [[0.25, 1.0], [0.0, 0.5]]
    nothing = Statistics(seen.histogram, seen.mass, seen.fired * 0, 0.0)
    assert nothing.firing_rates().tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_batches_have_few_shapes():
    """Rows of padding are empty; lengths are whole steps of 32."""
    asked = {"q": (np.ones((1, 33, 2)), np.full(33, 0.5, np.float32))}
    documents = [np.ones((1, 0, 2)), np.ones((1, 32, 2))]
    batch = [("q", 1), ("q", 0)]
    query, weights, query_mask, document, mask = kernel_features._padded(
        batch, asked, documents, 0
    )
    rows = kernel_features.BATCH
    assert query.shape == (rows, 64, 2) and document.shape == (rows, 32, 2)
    assert mask.numpy().sum(1).tolist() == [32.0] + [0.0] * (rows - 1)
    assert query_mask.numpy().sum(1).tolist() == [33.0] * 2 + [0.0] * (rows - 2)
    assert weights.numpy().sum() == 33.0
