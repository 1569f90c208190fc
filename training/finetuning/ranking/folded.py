"""Rankers over the folds of a cross-validation.

A ranker learns from a fold's training queries, is stopped and chosen by its
validation queries and scores its test queries; the test scores of all folds
together are one run per seed. What a fold learned is kept under a hash of all
that it depends on.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from common.errors import UserError
from data.finetuning.features import cache
from data.finetuning.ranking import collection as collections
from data.finetuning.ranking import metrics
from data.finetuning.ranking.collection import Collection
from data.finetuning.ranking.folds import Fold
from data.finetuning.ranking.options import RankingDataOptions
from data.finetuning.ranking.runs import Run
from modeling.heads import kernel_pooling
from training.finetuning.ranking.kernel_features import Features
from training.finetuning.ranking.knrm import Learned, Trainer
from training.finetuning.ranking.options import RankerOptions


@dataclasses.dataclass(frozen=True)
class Task:
    """What rankers are fitted on."""

    collection: Collection
    run: Run
    folds: Sequence[Fold]
    options: RankerOptions
    folder: str
    may_train: bool = True  # whether a fold that was not fitted yet may be
    first_seed: int = 0  # --seed: those of the rankers count from it on

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

    def check_may_train(self, folder: str, what: str) -> None:
        """Raises UserError where a fold must have been fitted before."""
        if not self.may_train:
            raise UserError(
                f"{folder} holds no {what} of these options and data: give "
                "--do_train"
            )

    def pairs(
        self, fold: Fold, names: Mapping[str, Iterable[str]]
    ) -> dict[str, np.ndarray]:
        """Training query -> (better, worse) places in `names`, int64 [n, 2].

        Raises UserError: no query has a pair.
        """
        data, pairs_of = self.collection.options, {}
        for query in fold.train:
            pairs_of[query] = collections.pairs(
                collections.grades_of(self.collection, query, names[query]),
                data.max_pairs_per_query,
                data.fold_seed,
                query,
            )
        if not any(map(len, pairs_of.values())):
            raise UserError(
                "no training query has candidates of unlike grades: raise "
                "--depth, or give judgements of these candidates"
            )
        return pairs_of

    def system(
        self, scores: Callable[[int, Fold, int], np.ndarray]
    ) -> "System":
        """The system of (fold number, fold, seed) -> scores of its test."""
        parts = [
            [
                split_run(self.run, fold.test, scores(number, fold, seed))
                for seed in range(self.options.seeds)
            ]
            for number, fold in enumerate(self.folds)
        ]
        return System(joined(parts), parts)

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
            # Left out likewise.
            **({"first_seed": self.first_seed} if self.first_seed else {}),
        }


def fold_seed_key(data: RankingDataOptions) -> dict[str, int]:
    """The seed that pairs are drawn with, for keys of what is kept.

    Left out where it is the default, so that earlier results are found.
    """
    return {"fold_seed": data.fold_seed} if data.fold_seed else {}


@dataclasses.dataclass(frozen=True)
class System:
    """A system in the table."""

    runs: list[Run]  # one per seed, all test queries
    # per fold and seed, that fold's test queries; empty for systems that learn
    # nothing
    parts: list[list[Run]] = dataclasses.field(default_factory=list)
    # what K-NRM and the cosine learned of each fold
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
    trainer = Trainer(task.options, len(features.layers), size, task.first_seed)

    def fit(fold: Fold) -> dict[str, np.ndarray]:
        return trainer.fit(
            {q: x[q] for q in fold.train},
            task.pairs(fold, features.names),
            {q: x[q] for q in fold.dev},
            lambda values: task.mean_ndcg(fold.dev, features.names, values),
        )

    def value(learned: Learned, query: str, seed: int) -> np.ndarray:
        layer = int(learned.layer[seed])
        w, b = learned.w[seed], learned.b[seed]
        return kernel_pooling.score(x[query][:, layer], w, b).numpy()

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
        return features.cosine[query][:, int(learned.layer[0])]

    return _over_folds(task, features, "cosine", fit, value, say)


def _over_folds(task, features, name, fit, value, say) -> System:
    def allowed(fold: Fold) -> dict[str, np.ndarray]:
        task.check_may_train(task.folder, f"{name} ranker")
        return fit(fold)

    learned, parts = [], []
    for number, fold in enumerate(task.folds):
        arrays, hit = cache.cached(
            task.folder,
            f"{name}-fold{number}",
            task.key(features.digest, fold) | {"ranker": name},
            lambda fold=fold: allowed(fold),
        )
        of_fold = Learned(**arrays)
        learned.append(of_fold)
        shown = sorted({features.layers[i] for i in of_fold.layer.tolist()})
        say(
            f"{name} fold {number + 1}/{len(task.folds)}: validation NDCG "
            f"{of_fold.dev.mean():.4f}, layer "
            f"{'/'.join(map(str, shown))}, passes "
            f"{'/'.join(map(str, of_fold.epochs.tolist()))}"
            + (", from an earlier run" if hit else "")
        )
        parts.append(
            [
                {
                    q: dict(
                        zip(
                            features.names[q],
                            value(of_fold, q, seed).tolist(),
                            strict=True,
                        )
                    )
                    for q in fold.test
                }
                for seed in range(len(of_fold.layer))
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
