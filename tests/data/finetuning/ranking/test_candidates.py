"""BM25: two test sets, other scripts, wrong collections."""

import pytest

from common.errors import UserError
from data.finetuning.ranking import (
    candidates,
    documents,
    judgments,
    metrics,
    topics,
)
from tests.data.finetuning.ranking_files import put


def test_a_collection_in_another_script(tmp_path):
    rows = ["a\t河流在森林里流动", "b\t学校的音乐老师", "c\t厨房里的窗户"]
    path = put(tmp_path, "d.tsv", "\n".join(rows))
    index = candidates.Bm25(documents.stream(path))
    run = index.search({"1": "音乐学校", "2": "森林的河流", "3": "المدرسة"}, 9)
    assert [next(iter(run[q])) for q in "12"] == ["b", "a"]
    assert "3" not in run
    path = put(tmp_path, "e.tsv", "a\tالموسيقى في المدرسة\nb\tالنهر والغابة\n")
    index = candidates.Bm25(documents.stream(path), stop_words="")
    assert list(index.search({"1": "المدرسة"}, 9)["1"]) == ["a"]


@pytest.mark.long
@pytest.mark.shared
@pytest.mark.parametrize(
    ("folder", "names", "forms", "wanted"),
    [
        (
            "cranfield",
            ("cran.qry", "cran.all.1400.xz", "cranqrel.q001-150"),
            ("cranfield",) * 3,
            (150, 0.516, 0.593, 0.496, 0.351, 0.708, 0.826, 0.889),
        ),
        (
            "cisi",
            ("CISI.QRY", "CISI.ALL.xz", "CISI.REL"),
            ("smart", "smart", "cisi"),
            (76, 0.302, 0.067, 0.302, 0.132, 0.407, 0.755, 0.150),
        ),
    ],
)
def test_bm25_on_test_sets(shared, folder, names, forms, wanted):
    places = [str(shared / "data/ranking" / folder / n) for n in names]
    queries = topics.read(places[0], forms[0])
    qrels = judgments.read(places[2], forms[2])
    queries = {q: queries[q] for q in qrels}
    index = candidates.Bm25(documents.stream(places[1], forms[1]))
    run = index.search(queries, 100)
    result = metrics.evaluate(qrels, run)
    best = metrics.evaluate(qrels, metrics.oracle(qrels, run))
    ndcg, err = metrics.ndcg_name(20), metrics.err_name(20)
    found = (
        result.mean(ndcg).queries,
        result.mean(ndcg).value,
        result.mean(err).value,
        result.mean("ndcg_cut_20 (trec_eval)").value,
        result.mean("map (trec_eval)").value,
        result.mean("recall_100 (trec_eval)").value,
        best.mean(ndcg).value,
        best.mean(err).value,
    )
    assert found == pytest.approx(wanted, abs=0.005)
    assert max(map(len, run.values())) == 100
    again = index.rescore(
        queries, {q: dict.fromkeys(r) for q, r in run.items()}
    )
    assert again == run


@pytest.mark.shared
def test_a_document_twice_is_refused():
    twice = [documents.Document("a", "some words", "f", n) for n in (1, 4)]
    with pytest.raises(UserError, match="f:4: the document 'a' comes a second"):
        candidates.Bm25(twice)


@pytest.mark.shared
def test_a_query_without_a_known_word_has_no_candidates():
    index = candidates.Bm25([documents.Document("a", "some words", "f", 1)])
    queries = {"1": "words", "2": "nothing known"}
    assert list(index.search(queries, 5)) == ["1"]
    assert index.rescore(queries, {"2": {"a": 1.0}}) == {"2": {"a": 0.0}}
    with pytest.raises(UserError, match="lacks the candidate 'b'"):
        index.rescore(queries, {"1": {"b": 1.0}})


def test_words_of_scripts_with_and_without_spaces(tmp_path):
    assert candidates.split("the state-of-the-art x 3d") == [
        *["the", "state", "of", "the", "art", "3d"]
    ]
    assert candidates.split("机器学习 ok 好") == [
        "机器",
        "器学",
        "学习",
        "ok",
        "好",
    ]
    assert candidates.split("مَرحبا हिन्दी") == ["مَرحبا", "हिन्दी"]
    for one, other in (
        ("caf\u00e9", "CAFE\u0301"),
        ("\u30c7\u30d5", "\u30c6\u3099\u30d5"),
        ("\u30cf\u30f3", "\uff8a\uff9d"),
        ("abc 24", "\uff21\uff22\uff23\u3000\uff12\uff14"),
        ("stra\u00dfe", "STRASSE"),
    ):
        assert candidates.split(one) == candidates.split(other) != []
    path = put(tmp_path, "stop", "The\n\nof\n")
    assert candidates.read_stop_words(path) == ("the", "of")
    assert candidates.read_stop_words("") == ()
    assert "the" in candidates.read_stop_words("en")
    with pytest.raises(UserError, match="stop:1: wanted a stop word without"):
        candidates.read_stop_words(put(tmp_path, "stop", "of the\n"))
    with pytest.raises(UserError, match="--stop_words=.* holds no word"):
        candidates.read_stop_words(put(tmp_path, "stop", "\n"))
