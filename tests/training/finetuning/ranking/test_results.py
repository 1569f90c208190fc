"""The table of a ranking run: means over seeds, tests, files, kernels."""

import json

import numpy as np
import pytest

from data.finetuning.ranking import collection as collections
from data.finetuning.ranking import metrics, runs
from data.finetuning.ranking.options import RankingDataOptions
from training.finetuning.ranking import results
from training.finetuning.ranking.folded import System
from training.finetuning.ranking.kernel_features import (
    BINS,
    Features,
    Statistics,
)

JUDGED = {
    "a": {"d1": 2, "d2": 0, "d3": 1},
    "b": {"d1": 0, "d4": 1},
    "c": {"d1": 0, "d4": 0},
    "e": {"d9": 1},
}
GOOD = {
    "a": {"d1": 3.0, "d3": 2.0, "d2": 1.0},
    "b": {"d4": 2.0, "d1": 1.0},
    "c": {"d1": 1.0, "d4": 0.5},
}
BAD = {
    "a": {"d2": 3.0, "d3": 2.0, "d1": 1.0},
    "b": {"d1": 2.0, "d4": 1.0},
    "c": {"d1": 1.0, "d4": 0.5},
}
NDCG = metrics.ndcg_name(3)
ERR = metrics.err_name(3)


def evaluation():
    """Of three queries: c has no relevant document, e was not asked."""
    options = RankingDataOptions(
        "t", "d", "q", cutoff=3, trec_measures=("map",)
    )
    found = collections.Collection({}, JUDGED, options)
    made = results.Evaluation(found, ["a", "b", "c"], 5)
    made.add("first (bm25)", System([BAD]))
    made.add("learned", System([GOOD, BAD, GOOD]))
    made.add("oracle", System([GOOD]))
    return made


def value(grades):
    """gdeval's NDCG of grades in order, of a query of these grades."""
    gains = [2.0**g - 1 for g in grades]
    discounts = 1 / np.log2(np.arange(2, 2 + len(gains)))
    return gains @ discounts / (sorted(gains, reverse=True) @ discounts)


def test_rows_are_of_the_seeds():
    rows = evaluation().rows()
    assert list(rows) == ["first (bm25)", "learned", "oracle"]
    worst = (value([0, 1, 2]) + value([0, 1])) / 2
    row = rows["learned"][NDCG]
    assert row["mean"] == pytest.approx((2 + worst) / 3)
    assert row["median"] == row["max"] == pytest.approx(1.0)
    assert row["min"] == pytest.approx(worst)
    assert row["sd"] == pytest.approx(np.std([1, worst, 1], ddof=1))
    # gdeval leaves queries without a relevant document out, trec_eval not.
    assert (row["seeds"], row["queries"]) == (3, 2)
    assert rows["learned"]["map (trec_eval)"]["queries"] == 3
    alone = rows["first (bm25)"][NDCG]
    assert alone["seeds"] == 1 and alone["sd"] == 0.0
    assert alone["mean"] == alone["min"] == pytest.approx(worst)


def test_a_mean_result_is_over_the_seeds_of_each_query():
    found = evaluation().mean_result("learned").per_query
    assert found["b"][NDCG] == pytest.approx((2 + value([0, 1])) / 3)
    assert found["c"][NDCG] == 0.0
    assert set(found) == {"a", "b", "c"}


def test_every_pair_of_systems_is_tested_once():
    made = evaluation()
    rows = made.differences(["first (bm25)", "learned"])
    assert [(row["system"], row["base"]) for row in rows] == [
        ("learned", "first (bm25)")
    ]
    (row,) = rows
    assert (row["measure"], row["queries"]) == (NDCG, 2)
    gain = 1 - (value([0, 1, 2]) + value([0, 1])) / 2
    assert row["mean"] == pytest.approx(gain * 2 / 3)
    assert row["low"] <= row["mean"] <= row["high"]
    assert rows == made.differences(["first (bm25)", "learned"])
    back = made.differences(["learned"])
    assert [row["system"] for row in back] == ["first (bm25)"]
    assert back[0]["mean"] == pytest.approx(-row["mean"])


def test_a_report_is_said_and_written(tmp_path):
    said = []
    content = evaluation().report(str(tmp_path), ["first (bm25)"], said.append)
    assert json.loads((tmp_path / "results.json").read_text()) == content
    assert content["queries"] == ["a", "b", "c"]
    assert content["err_max_grade"] == metrics.MAX_GRADE
    assert said[: said.index("")] == results.table_lines(content["systems"])
    assert said[-1].startswith("ERR with highest grade 4;")
    table = (tmp_path / "per_query.tsv").read_text().splitlines()
    assert table[0] == f"query\tsystem\t{NDCG}\t{ERR}\tmap (trec_eval)"
    assert len(table) == 1 + 3 * 3


def test_lines_of_the_table_by_hand():
    cell = {"mean": 0.51234, "sd": 0.2, "seeds": 1, "queries": 7}
    lines = results.table_lines(
        {
            "one": {"x": cell, "y": cell | {"queries": 9}},
            "two": {"x": cell | {"seeds": 3}, "y": cell | {"seeds": 3}},
        }
    )
    assert lines == [
        "| system | x | y | queries | seeds |",
        "|---|---|---|---|---|",
        "| one | 0.5123 | 0.5123 | 7/9 | 1 |",
        "| two | 0.5123 ± 0.2000 | 0.5123 ± 0.2000 | 7 | 3 |",
    ]
    test = {"system": "a", "base": "b", "mean": 0.1, "low": -0.05}
    test |= {"high": 0.25, "p": 0.04321, "queries": 7, "measure": "x"}
    assert results.test_lines([test]) == [
        "a - b: +0.1000 [-0.0500, +0.2500], p = 0.0432 (7 queries, x)"
    ]


def test_runs_of_seeds_and_folds_have_files(tmp_path):
    assert results.file_name("knrm (random vectors)") == "knrm__random_vectors"
    folder = tmp_path / "new" / "runs"
    results.write_runs(str(folder), "bm25", System([GOOD]))
    one = {"a": GOOD["a"]}
    two = {"b": GOOD["b"]}
    parts = [[one, {"a": BAD["a"]}], [two, {"b": BAD["b"]}]]
    both = [one | two, {"a": BAD["a"], "b": BAD["b"]}]
    results.write_runs(str(folder), "k (x)", System(both, parts))
    assert sorted(path.name for path in folder.iterdir()) == [
        "bm25.run",
        "k__x.seed0.fold0.run",
        "k__x.seed0.fold1.run",
        "k__x.seed0.run",
        "k__x.seed1.fold0.run",
        "k__x.seed1.fold1.run",
        "k__x.seed1.run",
    ]
    assert runs.read(str(folder / "k__x.seed1.run")) == both[1]
    assert runs.read(str(folder / "k__x.seed1.fold0.run")) == parts[0][1]
    assert (folder / "k__x.seed0.run").read_text().split()[5] == "k__x"
    # Fewer seeds and folds: what is no part of the table has no file.
    (folder / "k__x.seed1.note").touch()
    results.write_runs(str(folder), "k (x)", System([one | two], [[one | two]]))
    assert sorted(path.name for path in folder.iterdir()) == [
        "bm25.run",
        "k__x.seed0.fold0.run",
        "k__x.seed0.run",
        "k__x.seed1.note",
    ]


MU = (1.0, 0.5, -0.5)


def seen(mass, at=3):
    """Features of layers 2 and 10 whose cosines are all in one bin."""
    histogram = np.zeros((2, BINS))
    histogram[:, at] = 8.0
    histogram[:, at + 1] = 1.0
    statistics = Statistics(
        histogram, np.array(mass), np.array([[1.0, 2, 4]] * 2), 4.0
    )
    return Features({}, {}, {}, (2, 10), statistics, "digest")


def test_kernels_that_hold_all_are_said():
    lines = results.kernel_lines(seen([[1.0, 8, 1], [0.1, 0.2, 9.7]]), MU)
    bars = " " * 3 + "@" + ":" + " " * (BINS - 5)
    assert lines[:4] == [
        "kernels        1.00   0.50  -0.50",
        f"layer  2 cosines -1 |{bars}| 1",
        "  fires       25.0%  50.0% 100.0%",
        "  mass        10.0%  80.0%  10.0%",
    ]
    assert lines[4].startswith("layer 10 cosines")
    (warning,) = (line for line in lines if line.startswith("warning"))
    assert lines[-1] == warning
    assert "layer 10: the kernel at -0.50 holds 97% of the soft" in warning
    # At the limit it is none.
    lines = results.kernel_lines(seen([[9.0, 1, 0]] * 2), MU)
    assert not any(line.startswith("warning") for line in lines)


def test_a_picture_of_the_kernels_is_that_of_the_numbers(tmp_path):
    pictures = []
    for number, at in enumerate((3, 30)):
        path = tmp_path / f"{number}.png"
        results.draw_kernels(str(path), seen([[1.0, 1, 1]] * 2, at), MU)
        pictures.append(path.read_bytes())
    assert pictures[0].startswith(b"\x89PNG")
    assert pictures[0] != pictures[1]
