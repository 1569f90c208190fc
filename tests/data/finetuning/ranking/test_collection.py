"""A collection of files: what is judged, its candidates, pairs to train on."""

import numpy as np
import pytest

from common.errors import UserError
from data.finetuning.ranking import collection as collections
from data.finetuning.ranking.options import RankingDataOptions


@pytest.fixture
def files(tmp_path):
    """Three queries, two of them judged."""
    (tmp_path / "t.tsv").write_text("1\tmill river\n2\tschool\n3\tnothing\n")
    (tmp_path / "d.tsv").write_text(
        "a\tan old mill\nb\tthe school by the river\nc\tmill and river\n"
    )
    (tmp_path / "q").write_text("1 0 a 1\n1 0 c 2\n2 0 b 1\n9 0 b 1\n")
    return {
        "topics_file": str(tmp_path / "t.tsv"),
        "documents": str(tmp_path / "d.tsv"),
        "qrels_file": str(tmp_path / "q"),
    }


def load(files, **changes):
    said = []
    found = collections.load(
        RankingDataOptions(**(files | changes)), said.append
    )
    return found, said


def test_only_judged_queries_stay(files):
    found, said = load(files)
    assert found.topics == {"1": "mill river", "2": "school"}
    assert found.qrels == {"1": {"a": 1, "c": 2}, "2": {"b": 1}}
    assert said == [
        "2 judged queries of 3, 3 judgements; 1 judged queries have no topic"
    ]


def test_candidates_are_kept_until_an_option_changes(files, tmp_path):
    path, said = str(tmp_path / "run"), []
    found, _ = load(files)
    run = collections.find_candidates(found, path, said.append)
    assert next(iter(run["1"])) == "c" and set(run["1"]) == {*"abc"}
    assert list(run["2"]) == ["b"]
    again = collections.find_candidates(found, path, said.append)
    assert again == run
    other, _ = load(files, depth=1)
    short = collections.find_candidates(other, path, said.append)
    assert list(short["1"]) == ["c"]
    assert said == [
        "candidates: 4 documents of 2 queries by BM25",
        f"candidates: 4 documents of 2 queries, from {path}",
        "candidates: 2 documents of 2 queries by BM25",
    ]


def test_a_run_of_another_system(files, tmp_path):
    run_file = tmp_path / "theirs"
    run_file.write_text("1 Q0 a 1 9 x\n1 Q0 c 2 8 x\n9 Q0 b 1 9 x\n")
    found, _ = load(files, run_file=str(run_file), depth=1)
    run = collections.find_candidates(found, str(tmp_path / "run"), print)
    assert run == {"1": {"a": 9.0}}
    run_file.write_text("9 Q0 b 1 9 x\n")
    with pytest.raises(UserError, match="theirs has no judged query"):
        collections.find_candidates(found, str(tmp_path / "run"), print)


def test_a_run_of_another_system_is_not_taken_for_ours(files, tmp_path):
    path, said = str(tmp_path / "run"), []
    run_file = tmp_path / "theirs"
    run_file.write_text("1 Q0 a 1 9 x\n")
    ours, _ = load(files)
    theirs, _ = load(files, run_file=str(run_file))
    first = collections.find_candidates(ours, path, said.append)
    assert collections.find_candidates(theirs, path, said.append) != first
    assert collections.find_candidates(ours, path, said.append) == first
    assert [line.split()[-1] for line in said] == [
        "BM25",
        str(run_file),
        "BM25",
    ]


def test_queries_and_judgements_of_two_collections(files, tmp_path):
    (tmp_path / "q").write_text("7 0 a 1\n")
    with pytest.raises(UserError, match="the two are not of one collection"):
        load(files)


def test_documents_that_are_not_there_are_named_by_their_flag(files, tmp_path):
    found, _ = load(files, documents=str(tmp_path))
    with pytest.raises(UserError, match="^--documents=.* is a folder; give"):
        collections.find_candidates(found, str(tmp_path / "run"), print)


def test_grades_and_pairs_by_hand(files):
    found, _ = load(files)
    assert collections.grades_of(found, "1", ["c", "b", "a"]).tolist() == [
        *(2, 0, 1)
    ]
    skip, _ = load(files, unjudged="skip")
    grades = collections.grades_of(skip, "1", ["c", "b", "a"])
    assert grades.tolist() == [2, -1, 1]
    assert collections.pairs(grades, 0, 3, "1").tolist() == [[0, 2]]
    many = np.array([1, 0, 2, 0])
    every = collections.pairs(many, 0, 3, "1").tolist()
    assert every == [[0, 1], [0, 3], [2, 0], [2, 1], [2, 3]]
    some = collections.pairs(many, 3, 3, "1").tolist()
    assert len(some) == 3 and all(pair in every for pair in some)
    assert collections.pairs(many, 3, 3, "1").tolist() == some


def test_folds_are_over_queries_with_candidates(files, tmp_path):
    found, _ = load(files, folds=3)
    run = {"1": {"a": 1.0}}
    with pytest.raises(UserError, match="--folds must be 3 to"):
        collections.find_folds(found, run, str(tmp_path / "folds.json"))


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
