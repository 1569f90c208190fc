"""gdeval and trec_eval by their golden numbers."""

import itertools
import json

import numpy as np
import pytest

from common.errors import UserError
from data.finetuning.ranking import (
    metrics,
)

pytestmark = pytest.mark.shared


@pytest.fixture(scope="module")
def case(golden):
    return json.loads((golden / "ranking/metrics.json").read_text())


def test_golden_values_of_both_tools(case):
    qrels, run = case["qrels"], case["run"]
    result = metrics.evaluate(qrels, run)
    exact = case["gdeval_exact"]
    assert set(result.queries("gdeval")) == set(exact)
    for query, values in exact.items():
        found = result.per_query[query]
        assert [
            found["NDCG@20 (gdeval)"],
            found["ERR@20 (gdeval)"],
        ] == pytest.approx([values["ndcg"], values["err"]], abs=1e-12)
        printed = [round(v, 5) for v in found.values()][:2]
        assert printed == pytest.approx(case["gdeval_perl"][query], abs=1.1e-5)
    names = tuple(next(iter(case["trec_eval"].values())))
    theirs = metrics.trec_eval(qrels, run, names)
    assert theirs == case["trec_eval"]
    assert result.queries("trec_eval") == [q for q in qrels if q in theirs]


def test_means_say_over_how_many_queries(case):
    result = metrics.evaluate(case["qrels"], case["run"])
    sizes, means = {}, {}
    for convention in ("gdeval", "gdeval -c", "trec_eval", "judged"):
        mean = result.mean("NDCG@20 (gdeval)", convention)
        sizes[convention], means[convention] = mean.queries, mean.value
    with_relevant = [q for q, j in case["qrels"].items() if max(j.values()) > 0]
    both = [q for q in with_relevant if q in case["run"]]
    exact = np.array([case["gdeval_exact"][q]["ndcg"] for q in both])
    judged = len(case["qrels"])
    in_run = len([q for q in case["qrels"] if q in case["run"]])
    assert sizes == {
        "gdeval": len(both),
        "gdeval -c": len(with_relevant),
        "trec_eval": in_run,
        "judged": judged,
    }
    assert len(both) < len(with_relevant) < judged
    for convention, size in sizes.items():
        assert means[convention] == pytest.approx(exact.sum() / size)
    theirs = case["ir_measures_aggregate"]
    assert means["judged"] == pytest.approx(
        theirs["nDCG(dcg='exp-log2')@20"], abs=1e-5
    )
    for name, measure in (("AP", "map"), ("nDCG@20", "ndcg_cut_20")):
        mean = result.mean(f"{measure} (trec_eval)", "judged")
        assert mean.value == pytest.approx(theirs[name])


def test_grades_that_gdeval_refuses_are_refused(case):
    with pytest.raises(UserError, match="grade 5: gdeval takes at most 4"):
        metrics.evaluate({"1": {"a": 5}}, {"1": {"a": 1.0}})
    value = metrics.err([5], 20, 5)
    assert value == (2**5 - 1) / 2**5
    assert metrics.evaluate({"1": {"a": 5}}, {"1": {"a": 1.0}}, max_grade=5)


def test_scores_that_differ_beyond_single_precision_are_no_ties():
    qrels = {"1": {"a": 1}}
    run = {"1": {"a": 1.0 + 1e-12, "b": 1.0}}
    assert metrics.ndcg(qrels, run, 20) == {"1": 1.0}


@pytest.mark.parametrize(
    "name",
    [
        *("bogus_3", "P", "recall", "iprec_at_recall", "P_0", "P_05", "P_5.5"),
        *("G_1", "ndcg_cut_٣", "iprec_at_recall_0.1", "Rprec_mult_1"),
        *("iprec_at_recall_1.50", "runid", "num_q", "gm_map", ""),
    ],
)
def test_measures_without_a_mean_of_queries_are_refused(case, name):
    """Of some the library gives nothing, of others it ends the process."""
    with pytest.raises(UserError, match=f"trec_eval averages .* {name!r}; "):
        metrics.trec_eval(case["qrels"], case["run"], (name,))


def test_every_measure_that_is_named_has_a_value(case):
    with pytest.raises(UserError) as refused:
        metrics.trec_eval(case["qrels"], case["run"], ("bogus",))
    named = str(refused.value).partition("there are ")[2]
    names = tuple(named.replace("and with a cut-off ", "").split(", "))
    assert {"map", "set_F", "P_20", "iprec_at_recall_0.10"} < set(names)
    of_query = metrics.trec_eval(case["qrels"], case["run"], names)
    assert all(set(values) == set(names) for values in of_query.values())


@pytest.mark.parametrize(
    "grades, wanted",
    [((-2, -2), 0), ((-2, -1), 0), ((-2, 0), 0), ((-2, 1), 1)],
)
def test_grades_of_junk_are_not_relevant(grades, wanted):
    """trec_eval ends the process where a query has no grade above -2."""
    run = {"1": {"a": 2.0, "b": 1.0}}
    result = metrics.evaluate({"1": dict(zip("ab", grades, strict=True))}, run)
    values = list(result.per_query["1"].values())
    half = [1 / np.log2(3), 1 / 32, 1 / np.log2(3), 0.5, 0.5, 0.05, 1.0]
    assert values == pytest.approx([wanted * x for x in half])


def test_nothing_to_average_over_is_said():
    result = metrics.evaluate({"1": {"a": 1}}, {"2": {"a": 1.0}})
    with pytest.raises(UserError, match="no query of the run"):
        result.mean("NDCG@20 (gdeval)")


def test_memory_of_the_randomisation_test_is_bounded(monkeypatch):
    """Of thousands of queries all swaps at once take gigabytes."""
    from scipy import stats

    batches, plain = [], stats.permutation_test

    def watched(*arguments, **how):
        batches.append(how.get("batch") or how["n_resamples"])
        return plain(*arguments, **how)

    monkeypatch.setattr(stats, "permutation_test", watched)
    rng = np.random.default_rng(0)
    a, b = rng.random((2, 40))
    whole = metrics.compare(a, b, 3, resamples=500)
    monkeypatch.setattr(metrics, "_SWAPPED", 40 * 7)
    assert metrics.compare(a, b, 3, resamples=500) == whole
    assert batches[1] == 7


@pytest.mark.shared
def test_randomisation_test_by_brute_force():
    a, b = [0.9, 0.4, 0.8, 0.7, 0.3], [0.5, 0.5, 0.3, 0.6, 0.1]
    difference = np.subtract(a, b)
    signs = np.array(list(itertools.product([1, -1], repeat=5)))
    means = (signs * difference).mean(1)
    exact = np.mean(np.abs(means) >= abs(difference.mean()) - 1e-12)
    found = metrics.compare(a, b, 3)
    assert found.p == pytest.approx(exact)
    assert found.mean == pytest.approx(difference.mean())
    assert found.low < found.mean < found.high
    assert metrics.compare(a, a, 3).p == 1.0
    rng = np.random.default_rng(0)
    a, b = rng.random((2, 40))
    once = metrics.compare(a, b, 3)
    assert once == metrics.compare(a, b, 3)
    assert once.p != metrics.compare(a, b, 4).p
