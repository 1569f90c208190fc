"""Kernel features of every candidate, shard by shard.

The vectors are frozen, so K-NRM's features are numbers of the data: they are
computed once, whatever is trained on them. Letters: Y layers, P pairs of a
shard, Q query pieces, U document pieces, D vector size, K kernels.
"""

import dataclasses
import time
from collections.abc import Callable, Hashable, Sequence

import numpy as np
import tensorflow as tf

from data.finetuning.features import cache
from data.finetuning.ranking.runs import Run
from modeling.heads import kernel_pooling
from modeling.heads.kernel_pooling import Kernels
from training.finetuning.ranking.shards import Shard, Vectors, per_second
from training.finetuning.ranking.units import Units

BINS = 40  # of the histogram of cosines over [-1, 1]
BATCH = 64  # pairs
LENGTH_STEP = 32
# What one document piece gives a kernel at a distance of one sigma.
FIRES = float(np.exp(-0.5))


@dataclasses.dataclass(frozen=True)
class Statistics:
    """What the kernels saw, summed over all pairs."""

    histogram: np.ndarray  # [Y, BINS], cosines of query and document pieces
    mass: np.ndarray  # [Y, K], soft term frequency
    # [Y, K], query pieces (per document) with a soft term frequency of at least
    # `FIRES`
    fired: np.ndarray
    looked: float  # query pieces times documents

    def mass_shares(self) -> np.ndarray:
        """[Y, K], each row sums to 1."""
        return self.mass / np.maximum(self.mass.sum(1, keepdims=True), 1e-30)

    def firing_rates(self) -> np.ndarray:
        """[Y, K] in 0..1."""
        return self.fired / max(self.looked, 1.0)


@dataclasses.dataclass(frozen=True)
class Features:
    """Features of all candidates."""

    # query -> document ids in the candidates' order
    names: dict[str, list[str]]
    phi: dict[str, np.ndarray]  # query -> float32 [candidates, Y, K]
    # query -> float32 [candidates, Y], of mean vectors
    cosine: dict[str, np.ndarray]
    layers: tuple[int, ...]
    statistics: Statistics
    digest: str  # hash of all that they depend on


class FeatureMaker:
    """Computes `Features`; the results of each shard are kept in `folder`.

    `center` subtracts the mean of all document pieces, `idf` weighs query units
    by idf among the documents; `units` are what the pieces of a text make up.
    """

    def __init__(
        self,
        vectors: Vectors,
        kernels: Kernels,
        center: bool,
        idf: bool,
        folder: str,
        units: Units,
    ):
        self.vectors, self.kernels, self.units = vectors, kernels, units
        self.center, self.idf, self.folder = center, idf, folder
        # [Y, 1, D] to subtract; (unit -> documents with it, documents)
        self.mean, self.counts = 0.0, None
        self._compute = tf.function(
            self._pairs, reduce_retracing=True, autograph=False
        )

    def make(
        self,
        shards: Sequence[Shard],
        queries: Shard,
        run: Run,
        say: Callable[[str], None] = print,
    ) -> Features:
        """Features of every query's candidates; shards hold them all."""
        mean, self.counts = self._collection(shards)
        self.mean = mean
        asked = self._queries(queries, mean)
        wanted: dict[str, list[str]] = {}
        for query, scores in run.items():
            for name in scores:
                wanted.setdefault(name, []).append(query)
        parts, reused, computed, start_time = [], 0, 0, time.monotonic()
        for shard in shards:
            key = self._key(shard, shards, queries, wanted)
            arrays, hit = cache.cached(
                self.folder,
                "features",
                key,
                lambda shard=shard: self._shard(shard, asked, wanted, mean),
            )
            reused += hit
            computed += 0 if hit else len(arrays["phi"])
            parts.append((shard, arrays))
        say(
            f"features of {sum(map(len, run.values()))} pairs, {reused} of "
            f"{len(shards)} shards from an earlier run"
            + per_second(computed, "pairs", start_time)
        )
        return self._join(
            parts, run, wanted, [s.key for s in (*shards, queries)]
        )

    def _key(self, shard: Shard, shards, queries: Shard, wanted) -> dict:
        shared = [s.key for s in shards] if self.center or self.idf else []
        return {
            "shard": shard.key,
            "queries": queries.key,
            "kernels": [self.kernels.mu, self.kernels.sigma],
            "center": self.center,
            "idf": self.idf,
            "units": self.units.key,
            "collection": cache.hash_texts(shared),
            "pairs": cache.hash_texts(
                [n, wanted.get(n, [])] for n in shard.names
            ),
        }

    def _collection(self, shards: Sequence[Shard]):
        """(mean vector [Y, 1, D] or 0, `counts` or None)."""
        if not (self.center or self.idf):
            return 0.0, None
        total, pieces, documents = 0.0, 0, 0
        counts: dict[Hashable, int] = {}
        for shard in shards:
            arrays = shard.load()
            splits = arrays["splits"]
            if self.center:
                states = self._states(arrays, slice(0, splits[-1]))
                total = total + states.sum(1, keepdims=True, dtype=np.float64)
            pieces += int(splits[-1])
            documents += len(splits) - 1
            for start, end in zip(splits[:-1], splits[1:], strict=True):
                ids = arrays["ids"][start:end]
                for unit in set(self.units.names(ids)):
                    counts[unit] = counts.get(unit, 0) + 1
        mean = 0.0
        if self.center:
            mean = (total / max(pieces, 1)).astype(np.float32)
        return mean, (counts, documents) if self.idf else None

    def _states(self, arrays, own: slice) -> np.ndarray:
        stored = arrays.get("states")
        if stored is not None:
            stored = stored[:, own]
        return self.vectors.states(arrays["ids"][own], stored)

    def _queries(self, shard: Shard, mean) -> dict[str, tuple]:
        """Query -> (vectors [Y, Q, D], weights [Q])."""
        arrays = shard.load()
        queries = {}
        for i, name in enumerate(shard.names):
            rows = slice(*arrays["splits"][i : i + 2])
            queries[name] = (
                self._units(arrays, rows, mean),
                self.weights(self.units.names(arrays["ids"][rows])),
            )
        return queries

    def weights(self, units: Sequence[Hashable]) -> np.ndarray:
        """float32 [m] of a query's units; idf as `make` counted it."""
        if self.counts is None:
            return np.ones(len(units), np.float32)
        counts, documents = self.counts
        return np.array(
            [idf(counts.get(u, 0), documents) for u in units], np.float32
        )

    def _units(self, arrays, own: slice, mean) -> np.ndarray:
        """Vectors [Y, m, D] of a text's units."""
        states = self._states(arrays, own) - mean
        return self.units.pool(arrays["ids"][own], states)

    def _shard(self, shard: Shard, asked, wanted, mean) -> dict:
        """Arrays of one shard; pairs in its documents' order."""
        arrays = shard.load()
        documents = [
            self._units(arrays, slice(*arrays["splits"][i : i + 2]), mean)
            for i in range(len(shard.names))
        ]
        pairs = [
            (q, i) for i, n in enumerate(shard.names) for q in wanted.get(n, [])
        ]
        num_layers, num_kernels = len(self.vectors.layers), len(self.kernels.mu)
        phi = np.zeros((len(pairs), num_layers, num_kernels), np.float32)
        cosine = np.zeros((len(pairs), num_layers), np.float32)
        sums = [
            np.zeros((num_layers, size), np.float64)
            for size in (BINS, num_kernels, num_kernels)
        ]
        lengths = [len(asked[q][1]) for q, _ in pairs]
        order = np.argsort(lengths, kind="stable")
        for at in range(0, len(order), BATCH):
            chosen = order[at : at + BATCH]
            batch = [pairs[i] for i in chosen]
            for layer in range(num_layers):
                inputs = _padded(batch, asked, documents, layer)
                values = [x.numpy() for x in self._compute(*inputs)]
                phi[chosen, layer] = values[0][: len(chosen)]
                cosine[chosen, layer] = values[1][: len(chosen)]
                for total, value in zip(sums, values[2:], strict=True):
                    total[layer] += value
        return {
            "phi": phi,
            "cosine": cosine,
            "histogram": sums[0],
            "mass": sums[1],
            "fired": sums[2],
            "looked": np.array(float(sum(lengths))),
        }

    def _pairs(self, query, weights, query_mask, document, mask):
        """phi [P, K], cosine [P], histogram, mass, firings of a batch."""
        cosine = kernel_pooling.cosines(query, document)
        counts = kernel_pooling.soft_tf(cosine, mask, self.kernels)
        phi = kernel_pooling.features(counts, weights)
        means = [
            tf.reduce_sum(x * m[:, :, tf.newaxis], 1)
            for x, m in ((query, query_mask), (document, mask))
        ]
        means = [tf.math.l2_normalize(x, -1) for x in means]
        real = query_mask[:, :, tf.newaxis] * mask[:, tf.newaxis]
        histogram = tf.histogram_fixed_width(
            tf.boolean_mask(cosine, real > 0), [-1.0, 1.0], BINS
        )
        real = query_mask[:, :, tf.newaxis]
        fired = tf.cast(counts >= FIRES, tf.float32) * real
        return (
            phi,
            tf.reduce_sum(means[0] * means[1], -1),
            histogram,
            tf.reduce_sum(counts * real, [0, 1]),
            tf.reduce_sum(fired, [0, 1]),
        )

    def _join(self, parts, run: Run, wanted, keys) -> Features:
        row_of = {
            query: {name: i for i, name in enumerate(scores)}
            for query, scores in run.items()
        }
        shape = (len(self.vectors.layers), len(self.kernels.mu))
        phi = {
            q: np.zeros((len(p), *shape), np.float32) for q, p in row_of.items()
        }
        cosine = {
            q: np.zeros((len(p), shape[0]), np.float32)
            for q, p in row_of.items()
        }
        sums = {"histogram": 0.0, "mass": 0.0, "fired": 0.0, "looked": 0.0}
        for shard, arrays in parts:
            at = 0
            for name in shard.names:
                for query in wanted.get(name, []):
                    phi[query][row_of[query][name]] = arrays["phi"][at]
                    cosine[query][row_of[query][name]] = arrays["cosine"][at]
                    at += 1
            for name in sums:
                sums[name] = sums[name] + arrays[name]
        sums["looked"] = float(sums["looked"])
        digest = cache.hash_texts(
            [
                keys,
                self.kernels.mu,
                self.kernels.sigma,
                self.center,
                self.idf,
                self.units.key,
            ]
        )
        return Features(
            {q: list(p) for q, p in row_of.items()},
            phi,
            cosine,
            self.vectors.layers,
            Statistics(**sums),
            digest,
        )


def idf(count: int, documents: int) -> float:
    """log(1 + (N - n + 0.5) / (n + 0.5)), as in BM25."""
    return float(np.log1p((documents - count + 0.5) / (count + 0.5)))


def _padded(batch, asked, documents, layer: int) -> list[tf.Tensor]:
    """Vectors and masks of `BATCH` pairs; surplus rows are empty."""
    dim = asked[batch[0][0]][0].shape[-1]
    longest = [
        max(len(asked[q][1]) for q, _ in batch),
        max(documents[i].shape[1] for _, i in batch),
    ]
    sizes = [max(1, -(-n // LENGTH_STEP)) * LENGTH_STEP for n in longest]
    query = np.zeros((BATCH, sizes[0], dim), np.float32)
    weights = np.zeros((BATCH, sizes[0]), np.float32)
    query_mask = np.zeros_like(weights)
    document = np.zeros((BATCH, sizes[1], dim), np.float32)
    mask = np.zeros((BATCH, sizes[1]), np.float32)
    for row, (q, i) in enumerate(batch):
        states, n = asked[q]
        query[row, : len(n)] = states[layer]
        weights[row, : len(n)] = n
        query_mask[row, : len(n)] = 1.0
        size = documents[i].shape[1]
        document[row, :size] = documents[i][layer]
        mask[row, :size] = 1.0
    return [
        tf.constant(x) for x in (query, weights, query_mask, document, mask)
    ]
