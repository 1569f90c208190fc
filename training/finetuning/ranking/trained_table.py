"""K-NRM with the vectors trained beside its weights, as its paper has it.

A static table [V, D] of piece vectors is where the frozen rankers begin; here
w, b and the table learn from the same pairs by the same hinge loss. Each fold
and seed has a table of its own. Letters: V pieces of the collection, D vector
size, K features, B pairs of a step, Q query pieces, U document pieces.
"""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf
import tf_keras

from data.finetuning.features import cache
from data.finetuning.ranking.folds import Fold
from modeling.heads import kernel_pooling, ranking_losses
from training.finetuning.ranking import folded
from training.finetuning.ranking.folded import System, Task
from training.finetuning.ranking.kernel_features import FeatureMaker, Features
from training.finetuning.ranking.shards import Shard

NAME = "knrm (trained embeddings)"
SCORED = 64  # documents that are scored at a time


@dataclasses.dataclass(frozen=True)
class Texts:
    """Pieces of queries and documents, as places in a table."""

    # id -> (places int32 [n], weights float32 [n])
    queries: dict[str, tuple[np.ndarray, np.ndarray]]
    documents: dict[str, np.ndarray]  # id -> places int32 [n]
    table: np.ndarray  # float32 [V, D], their vectors before training


def read(maker: FeatureMaker, shards: Sequence[Shard], queries: Shard) -> Texts:
    """Pieces of the shards; `maker` has a table and counted the units."""
    asked = {n: maker.units.names(ids) for n, ids in queries.pieces()}
    token_ids = {
        name: np.asarray(maker.units.names(ids), np.int32)
        for shard in shards
        for name, ids in shard.pieces()
    }
    every = [
        *token_ids.values(),
        *[np.asarray(p, np.int32) for p in asked.values()],
    ]
    known = np.unique(np.concatenate(every))
    return Texts(
        {
            name: (_places(known, pieces), maker.weights(pieces))
            for name, pieces in asked.items()
        },
        {name: _places(known, pieces) for name, pieces in token_ids.items()},
        maker.vectors.table[known],
    )


def _places(known: np.ndarray, pieces) -> np.ndarray:
    return np.searchsorted(known, pieces).astype(np.int32)


class TableTrainer:
    """Trains and scores one table per fold and seed.

    It starts with features of the table as it is; their mean and deviation over
    a fold's training candidates stay the scale of its features.
    """

    def __init__(
        self,
        task: Task,
        texts: Texts,
        start: Features,
        kernels: kernel_pooling.Kernels,
        say: Callable[[str], None] = print,
    ):
        self.task, self.texts, self.say = task, texts, say
        self.options, self.kernels = task.options, kernels
        self.names, self.digest = start.names, start.digest
        self.start = {q: x[:, 0] for q, x in folded.inputs(task, start).items()}
        self.places = {
            q: {name: i for i, name in enumerate(names)}
            for q, names in self.names.items()
        }
        size = next(iter(self.start.values())).shape[-1]
        self._table = tf.Variable(texts.table)
        self._w = tf.Variable(tf.zeros([size]))
        self._b = tf.Variable(0.0)
        self._scale = [tf.Variable(tf.zeros([size])) for _ in range(2)]
        self._variables = [self._w, self._b, self._table]
        self._optimizer = tf_keras.optimizers.Adam(
            self.options.learning_rate, epsilon=self.options.adam_epsilon
        )
        self._optimizer.build(self._variables)
        self._fresh = [v.numpy() for v in self._optimizer.variables]
        self._longest = [
            max(1, *(len(p) for p in part))
            for part in (
                [p for p, _ in texts.queries.values()],
                texts.documents.values(),
            )
        ]
        self._step = tf.function(self._train, autograph=False)
        self._value = tf.function(self._scores, autograph=False)

    def fit(self) -> System:
        """Every fold and seed, trained or found; their test runs."""
        return self.task.system(self._test_scores)

    def _test_scores(self, number: int, fold: Fold, seed: int) -> np.ndarray:
        arrays, hit = cache.cached(
            self.task.folder,
            f"table-fold{number}-seed{seed}",
            self.task.key(self.digest, fold) | {"ranker": NAME, "seed": seed},
            lambda: self._fit(fold, seed),
        )
        self.say(
            f"{NAME} fold {number + 1}/{len(self.task.folds)} seed {seed}: "
            f"validation NDCG {float(arrays['dev']):.4f}, passes "
            f"{int(arrays['epochs'])}"
            + (", from an earlier run" if hit else "")
        )
        return arrays["scores"]

    def _fit(self, fold: Fold, seed: int) -> dict[str, np.ndarray]:
        """Test scores of the best pass over the training pairs."""
        self.task.check_may_train(self.task.folder, NAME)
        pairs = [
            (query, better, worse)
            for query, own in self.task.pairs(fold, self.names).items()
            for better, worse in own.tolist()
        ]
        seed += self.task.first_seed
        self._reset(fold, seed)
        best, since, kept = -1.0, 0, {}
        size = self.options.batch_size
        for epoch in range(1, self.options.epochs + 1):
            rng = np.random.default_rng((seed, epoch))
            steps = -(-len(pairs) // size)
            order = np.resize(rng.permutation(len(pairs)), steps * size)
            for at in range(0, len(order), size):
                chosen = [pairs[i] for i in order[at : at + size]]
                self._step(*self._batch(chosen))
            dev = self.task.run_ndcg(
                folded.split_run(self.task.run, fold.dev, self._score(fold.dev))
            )
            since += 1
            if dev > best:
                best, since = dev, 0
                kept = {"scores": self._score(fold.test), "epochs": epoch}
            if since == self.options.patience:
                break
        return {k: np.asarray(v) for k, v in kept.items()} | {
            "dev": np.asarray(best)
        }

    def _reset(self, fold: Fold, seed: int) -> None:
        """The table as given, small w, b = 0, the fold's scale."""
        x = np.concatenate([self.start[q] for q in fold.train])
        deviation = np.maximum(x.std(0, dtype=np.float64), 1e-6)
        for variable, value in zip(
            self._scale, (x.mean(0, dtype=np.float64), deviation), strict=True
        ):
            variable.assign(value.astype(np.float32))
        limit = 0.1 * np.sqrt(6.0 / (len(deviation) + 1))
        rng = np.random.default_rng((seed, 0))
        fresh = rng.uniform(-limit, limit, len(deviation))
        self._w.assign(fresh.astype(np.float32))
        self._b.assign(0.0)
        self._table.assign(self.texts.table)
        for variable, value in zip(
            self._optimizer.variables, self._fresh, strict=True
        ):
            variable.assign(value)

    def _batch(self, pairs) -> list[tf.Tensor]:
        """Arrays of B pairs (query, better, worse): rows [2 B]."""
        rows = [(q, i) for q, better, worse in pairs for i in (better, worse)]
        return self._arrays(rows)

    def _arrays(self, rows: Sequence[tuple[str, int]]) -> list[tf.Tensor]:
        """Query places, weights, document places, mask, candidates' scores."""
        query = np.zeros((len(rows), self._longest[0]), np.int32)
        weights = np.zeros(query.shape, np.float32)
        document = np.zeros((len(rows), self._longest[1]), np.int32)
        mask = np.zeros(document.shape, np.float32)
        start = np.zeros((len(rows), 1), np.float32)
        for row, (name, rank) in enumerate(rows):
            pieces, n = self.texts.queries[name]
            query[row, : len(pieces)] = pieces
            weights[row, : len(pieces)] = n
            own = self.texts.documents[self.names[name][rank]]
            document[row, : len(own)] = own
            mask[row, : len(own)] = 1.0
            start[row] = self.start[name][rank, -1]
        return [tf.constant(x) for x in (query, weights, document, mask, start)]

    def _scores(self, query, weights, document, mask, given):
        """float32 [rows]."""
        phi = kernel_pooling.pair_features(
            tf.gather(self._table, query),
            weights,
            tf.gather(self._table, document),
            mask,
            self.kernels,
        )
        if self.options.with_candidate_score:
            phi = tf.concat([phi, given], -1)
        mean, deviation = self._scale
        return kernel_pooling.score((phi - mean) / deviation, self._w, self._b)

    def _train(self, *rows) -> None:
        with tf.GradientTape() as tape:
            values = tf.reshape(self._scores(*rows), [-1, 2])
            losses = ranking_losses.hinge(values[:, 0], values[:, 1])
            loss = tf.reduce_mean(losses)
        gradients = tape.gradient(loss, self._variables)
        self._optimizer.apply_gradients(
            zip(gradients, self._variables, strict=True)
        )

    def _score(self, queries: Sequence[str]) -> np.ndarray:
        """float32 [N], the queries' candidates in the run's order."""
        rows = [
            (query, self.places[query][name])
            for query in queries
            for name in self.task.run[query]
        ]
        scores = []
        for at in range(0, len(rows), SCORED):
            part = rows[at : at + SCORED]
            # Rows of one shape: surplus ones repeat the last.
            full = [*part, *[part[-1]] * (SCORED - len(part))]
            scores.append(self._value(*self._arrays(full)).numpy()[: len(part)])
        return np.concatenate(scores)
