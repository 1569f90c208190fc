"""Rankers over the folds of a cross-validation.

A ranker learns from a fold's training queries, is stopped and chosen by its
validation queries and scores its test queries; the test scores of all folds
together are one run per seed. What a fold learned is kept under a hash of all
that it depends on.
"""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from common.errors import UserError
from data.finetuning.features import cache
from data.finetuning.ranking import collection as collections
from data.finetuning.ranking import metrics
from data.finetuning.ranking.collection import Collection
from data.finetuning.ranking.folds import Fold
from data.finetuning.ranking.options import RankingDataOptions
from data.finetuning.ranking.runs import Run
from training.finetuning.ranking.kernel_features import Features
from training.finetuning.ranking.knrm import Learned, Trainer, scores
from training.finetuning.ranking.options import RankerOptions


@dataclasses.dataclass(frozen=True)
class Task:
    """What rankers are fitted on.

    Attributes:
      may_train: whether a fold that was not fitted yet may be.
    """

    collection: Collection
    run: Run
    folds: Sequence[Fold]
    options: RankerOptions
    folder: str
    may_train: bool = True

    def mean_ndcg(
        self, queries: Sequence[str], names, values: Sequence[np.ndarray]
    ) -> float:
        """gdeval's NDCG of scores [candidates] of some queries."""
        return self.run_ndcg(
            {
                q: dict(zip(names[q], v.tolist(), strict=True))
                for q, v in zip(queries, values, strict=True)
            }
        )

    def run_ndcg(self, run: Run) -> float:
        """gdeval's mean NDCG over the queries of a run."""
        qrels = {q: self.collection.qrels[q] for q in run}
        per_query = metrics.ndcg(qrels, run, self.collection.options.cutoff)
        return float(np.mean([per_query[q] for q in run]))

    def key(self, features: str, fold: Fold) -> dict:
        """What a fitted fold depends on; `features` is their digest."""
        options = dataclasses.asdict(self.options)
        data = self.collection.options
        return {
            "features": features,
            "fold": dataclasses.asdict(fold),
            "judgements": cache.hash_texts(self.collection.qrels.items()),
            "scores": cache.hash_texts(self.run.items()),
            "options": options,
            "pairs": [data.unjudged, data.max_pairs_per_query, data.cutoff],
            **fold_seed_key(data),
        }


def fold_seed_key(data: RankingDataOptions) -> dict[str, int]:
    """The seed that pairs are drawn with, for keys of what is kept.

    Left out where it is the default, so that earlier results are found.
    """
    return {"fold_seed": data.fold_seed} if data.fold_seed else {}


@dataclasses.dataclass(frozen=True)
class System:
    """A system in the table.

    Attributes:
      runs: one per seed, all test queries.
      parts: per fold and seed, that fold's test queries; empty for systems
        that learn nothing.
      learned: what K-NRM and the cosine learned of each fold.
    """

    runs: list[Run]
    parts: list[list[Run]] = dataclasses.field(default_factory=list)
    learned: list[Learned] = dataclasses.field(default_factory=list)


def inputs(task: Task, features: Features) -> dict[str, np.ndarray]:
    """Query -> float32 [candidates, Y, K or K + 1]: phi, the score with it."""
    if not task.options.with_candidate_score:
        return features.phi
    phi_of = {}
    for query, phi in features.phi.items():
        first_scores = [task.run[query][n] for n in features.names[query]]
        column = np.broadcast_to(
            np.array(first_scores, np.float32)[:, None, None],
            (*phi.shape[:2], 1),
        )
        phi_of[query] = np.concatenate([phi, column], -1)
    return phi_of


def knrm(
    task: Task,
    features: Features,
    name: str,
    say: Callable[[str], None] = print,
) -> System:
    """K-NRM of every fold and seed."""
    x = inputs(task, features)
    size = next(iter(x.values())).shape[-1]
    trainer = Trainer(task.options, len(features.layers), size)

    def fit(fold: Fold) -> dict[str, np.ndarray]:
        return trainer.fit(
            {q: x[q] for q in fold.train},
            {q: pairs_of(task, features.names[q], q) for q in fold.train},
            {q: x[q] for q in fold.dev},
            lambda values: task.mean_ndcg(fold.dev, features.names, values),
        )

    def value(learned: Learned, query: str, seed: int) -> np.ndarray:
        layer = int(learned.layer[seed])
        return scores(x[query][:, layer], learned.w[seed], learned.b[seed])

    return _over_folds(task, features, name, fit, value, say)


def cosine(
    task: Task, features: Features, say: Callable[[str], None] = print
) -> System:
    """The cosine of mean vectors; the validation queries choose the layer."""

    def fit(fold: Fold) -> dict[str, np.ndarray]:
        rankings = [
            task.mean_ndcg(
                fold.dev,
                features.names,
                [features.cosine[q][:, i] for q in fold.dev],
            )
            for i in range(len(features.layers))
        ]
        best = int(np.argmax(rankings))
        empty = np.zeros((1, 0), np.float32)
        return Learned(
            empty,
            np.zeros(1, np.float32),
            np.array([best]),
            np.array([rankings[best]]),
            np.zeros(1, np.int64),
        ).arrays()

    def value(learned: Learned, query: str, seed: int) -> np.ndarray:
        del seed
        return features.cosine[query][:, int(learned.layer[0])]

    return _over_folds(task, features, "cosine", fit, value, say)


def _over_folds(task, features, name, fit, value, say) -> System:
    def allowed(fold: Fold) -> dict[str, np.ndarray]:
        if not task.may_train:
            raise UserError(
                f"{task.folder} holds no {name} ranker of these options and "
                "data: give --do_train"
            )
        return fit(fold)

    learned, parts = [], []
    for number, fold in enumerate(task.folds):
        arrays, hit = cache.cached(
            task.folder,
            f"{name}-fold{number}",
            task.key(features.digest, fold) | {"ranker": name},
            lambda fold=fold: allowed(fold),
        )
        found = Learned(**arrays)
        learned.append(found)
        shown = sorted({features.layers[i] for i in found.layer.tolist()})
        say(
            f"{name} fold {number + 1}/{len(task.folds)}: validation NDCG "
            f"{found.dev.mean():.4f}, layer "
            f"{'/'.join(map(str, shown))}, passes "
            f"{'/'.join(map(str, found.epochs.tolist()))}"
            + (", from an earlier run" if hit else "")
        )
        parts.append(
            [
                {
                    q: dict(
                        zip(
                            features.names[q],
                            value(found, q, seed).tolist(),
                            strict=True,
                        )
                    )
                    for q in fold.test
                }
                for seed in range(len(found.layer))
            ]
        )
    return System(joined(parts), parts, learned)


def joined(parts: Sequence[Sequence[Run]]) -> list[Run]:
    """One run per seed of the runs per fold and seed."""
    return [
        {q: r for part in parts for q, r in part[seed].items()}
        for seed in range(len(parts[0]))
    ]


def split_run(run: Run, queries: Sequence[str], scores: np.ndarray) -> Run:
    """Scores [N] of queries' candidates, in the order of `run`, as a run."""
    sizes = [len(run[q]) for q in queries]
    return {
        q: dict(zip(run[q], own.tolist(), strict=True))
        for q, own in zip(
            queries, np.split(scores, np.cumsum(sizes)[:-1]), strict=True
        )
    }


def pairs_of(task: Task, names: list[str], query: str) -> np.ndarray:
    """(better, worse) places among a query's candidates, int64 [n, 2]."""
    grades = collections.grades_of(task.collection, query, names)
    limit = task.collection.options.max_pairs_per_query
    seed = task.collection.options.fold_seed
    return collections.pairs(grades, limit, seed, query)
