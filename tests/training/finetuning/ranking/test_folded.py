"""Rankers of folds: pairs, keys, runs of all folds, and what is kept."""

import dataclasses

import numpy as np
import pytest

from common.errors import UserError
from data.finetuning.ranking import collection as collections
from data.finetuning.ranking.folds import Fold
from data.finetuning.ranking.options import RankingDataOptions
from training.finetuning.ranking import folded
from training.finetuning.ranking.folded import Task
from training.finetuning.ranking.kernel_features import Features
from training.finetuning.ranking.options import RankerOptions


def test_no_pair_to_learn_from_is_said():
    options = RankingDataOptions("topics", "documents", "qrels")
    judged = {"a": {"d": 1, "e": 1}}
    found = collections.Collection({"a": "text"}, judged, options)
    run = {"a": {"d": 2.0, "e": 1.0}}
    fold = Fold(("a",), (), ())
    task = Task(found, run, [fold], RankerOptions(), "rankers")
    with pytest.raises(UserError, match="no training query has candidates"):
        task.pairs(fold, run)


RUN = {
    "a": {"d1": 3.0, "d2": 2.0, "d3": 1.0},
    "b": {"d2": 5.0, "d4": 4.0},
    "c": {"d4": 2.5, "d1": 0.5},
}
JUDGED = {
    "a": {"d1": 0, "d2": 2, "d3": 1},
    "b": {"d2": 1, "d4": 0},
    "c": {"d4": 0, "d1": 1},
}
FOLDS = (
    Fold(("a",), ("b",), ("c",)),
    Fold(("b",), ("c",), ("a",)),
    Fold(("c",), ("a",), ("b",)),
)


def task_of(folder="", options=None, run=RUN, judged=JUDGED, **data):
    options = options or RankerOptions(seeds=2)
    data = RankingDataOptions("topics", "documents", "qrels", **data)
    found = collections.Collection(dict.fromkeys(run, "text"), judged, data)
    return Task(found, run, FOLDS, options, str(folder))


def test_scores_go_to_the_candidates_in_the_order_of_the_run():
    found = folded.split_run(RUN, ["c", "a"], np.array([1.0, 2, 3, 4, 5]))
    assert found == {
        "c": {"d4": 1.0, "d1": 2.0},
        "a": {"d1": 3.0, "d2": 4.0, "d3": 5.0},
    }
    with pytest.raises(ValueError):
        folded.split_run(RUN, ["c"], np.array([1.0, 2.0, 3.0]))


def test_a_system_has_one_run_of_all_test_queries_per_seed():
    task = task_of()

    def scores(number, fold, seed):
        sizes = sum(len(RUN[q]) for q in fold.test)
        return np.arange(sizes) + 10.0 * number + 100.0 * seed

    found = task.system(scores)
    assert [set(run) for run in found.runs] == [set("abc")] * 2
    assert found.runs[1]["a"] == {"d1": 110.0, "d2": 111.0, "d3": 112.0}
    assert found.parts[2][0] == {"b": {"d2": 20.0, "d4": 21.0}}
    assert folded.joined(found.parts) == found.runs


def test_ndcg_is_the_mean_of_the_runs_own_queries():
    task = task_of()
    best = {"a": {"d2": 3.0, "d3": 2.0, "d1": 1.0}}
    assert task.run_ndcg(best) == pytest.approx(1.0)
    both = best | {"b": {"d4": 2.0, "d2": 1.0}}
    half = task.run_ndcg({"b": both["b"]})
    assert half == pytest.approx(1 / np.log2(3))
    assert task.run_ndcg(both) == pytest.approx((1 + half) / 2)
    names = {q: [*scores] for q, scores in RUN.items()}
    values = [np.array([1.0, 3.0, 2.0]), np.array([1.0, 2.0])]
    assert task.mean_ndcg(["a", "b"], names, values) == task.run_ndcg(both)


def test_pairs_are_of_the_training_queries_alone():
    task = task_of()
    names = {q: [*scores] for q, scores in RUN.items()}
    found = task.pairs(FOLDS[0], names)
    assert list(found) == ["a"]
    assert {tuple(p) for p in found["a"]} == {(1, 0), (1, 2), (2, 0)}
    few = task_of(max_pairs_per_query=1).pairs(FOLDS[0], names)
    assert len(few["a"]) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"options": RankerOptions(seeds=3)},
        {"run": RUN | {"a": RUN["a"] | {"d1": 3.5}}},
        {"judged": JUDGED | {"b": {"d2": 2, "d4": 0}}},
        {"unjudged": "skip"},
        {"max_pairs_per_query": 7},
        {"cutoff": 5},
        {"fold_seed": 1},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_the_key_of_a_fold_has_all_that_it_depends_on(changes):
    wanted = task_of().key("f", FOLDS[0])
    assert task_of("other").key("f", FOLDS[0]) == wanted
    assert task_of(**changes).key("f", FOLDS[0]) != wanted
    assert (
        task_of().key("g", FOLDS[0]) != wanted != task_of().key("f", FOLDS[1])
    )
    assert folded.fold_seed_key(RankingDataOptions("t", "d", "q")) == {}


def features_of(cosine):
    """Features of two layers, 4 and 7."""
    return Features(
        {q: [*scores] for q, scores in RUN.items()},
        {
            q: np.full((len(scores), 2, 3), i, np.float32)
            for i, (q, scores) in enumerate(RUN.items())
        },
        cosine,
        (4, 7),
        None,
        "digest",
    )


def test_the_score_of_the_candidates_is_one_more_feature():
    features = features_of({})
    x = folded.inputs(task_of(), features)
    assert x["b"].shape == (2, 2, 4) and x["b"].dtype == np.float32
    assert x["b"][:, :, 3].tolist() == [[5.0, 5.0], [4.0, 4.0]]
    assert (x["b"][:, :, :3] == 1.0).all()
    options = RankerOptions(seeds=2, with_candidate_score=False)
    assert folded.inputs(task_of(options=options), features) is features.phi


def test_the_validation_queries_choose_the_layer_of_the_cosine(tmp_path):
    """Of the first layer b is right, of the second c; of a both are wrong."""
    cosine = {
        "a": np.array([[3.0, 0.1], [2.0, 0.2], [1.0, 0.3]]),
        "b": np.array([[1.0, 0.0], [0.0, 1.0]]),
        "c": np.array([[1.0, 0.0], [0.0, 1.0]]),
    }
    task, said = task_of(tmp_path), []
    found = folded.cosine(task, features_of(cosine), said.append)
    # fold: validation b -> layer 4, tests c; c -> 7, a; a -> 7, b.
    layers = [int(learned.layer[0]) for learned in found.learned]
    assert layers == [0, 1, 1]
    assert found.runs == [
        {
            "c": {"d4": 1.0, "d1": 0.0},
            "a": {"d1": 0.1, "d2": 0.2, "d3": 0.3},
            "b": {"d2": 0.0, "d4": 1.0},
        }
    ]
    assert said[0] == (
        "cosine fold 1/3: validation NDCG 1.0000, layer 4, passes 0"
    )
    # What was fitted is found, and what was not may not be.
    again = []
    only = dataclasses.replace(task, may_train=False)
    kept = folded.cosine(only, features_of(cosine), again.append)
    assert kept.runs == found.runs
    assert again[0] == said[0] + ", from an earlier run"
    other = dataclasses.replace(only, options=RankerOptions(seeds=3))
    with pytest.raises(UserError, match="no cosine ranker of these .*do_train"):
        folded.cosine(other, features_of(cosine), str)


def test_a_fitted_ranker_scores_its_test_queries(tmp_path):
    """The third feature says the grade: every fold learns it."""
    rng = np.random.default_rng(0)
    phi = {}
    for query, scores in RUN.items():
        phi[query] = rng.normal(size=(len(scores), 2, 3)).astype(np.float32)
        grades = [JUDGED[query][d] for d in scores]
        phi[query][:, 1, 2] = 2.0 * np.array(grades)
    features = dataclasses.replace(features_of({}), phi=phi)
    options = RankerOptions(
        seeds=2,
        epochs=30,
        patience=30,
        learning_rate=0.1,
        batch_size=2,
        with_candidate_score=False,
    )
    task = task_of(tmp_path, options)
    found = folded.knrm(task, features, "knrm", str)
    assert len(found.runs) == 2 and set(found.runs[0]) == set("abc")
    # --seed had no effect: rankers of any were those of 0, 1, ...
    later = dataclasses.replace(task, first_seed=1)
    shifted = folded.knrm(later, features, "knrm", str)
    np.testing.assert_allclose(
        shifted.learned[0].w[0], found.learned[0].w[1], rtol=1e-4
    )
    for seed, run in enumerate(found.runs):
        for number, fold in enumerate(FOLDS):
            learned = found.learned[number]
            (query,) = fold.test
            x = phi[query][:, int(learned.layer[seed])]
            wanted = np.tanh(x @ learned.w[seed] + learned.b[seed])
            values = [run[query][d] for d in features.names[query]]
            np.testing.assert_allclose(values, wanted, atol=1e-5)
    assert found.runs[0] != found.runs[1]
