"""Collections by id: a made data set in place of the package's."""

import sys
import types
from typing import NamedTuple

import pytest

from common.errors import UserError
from data.finetuning.ranking import catalogue
from data.finetuning.ranking import collection as collections
from data.finetuning.ranking.options import RankingDataOptions


class Query(NamedTuple):
    query_id: str
    title: str
    description: str

    def default_text(self):
        return self.title


class Doc(NamedTuple):
    doc_id: str
    title: str
    body: str

    def default_text(self):
        return f"{self.title} {self.body}"


class Qrel(NamedTuple):
    query_id: str
    doc_id: str
    relevance: int
    iteration: str


class Store:
    def __init__(self, docs):
        self.docs, self.asked = {d.doc_id: d for d in docs}, []

    def get_many(self, ids):
        self.asked += ids
        return {i: self.docs[i] for i in ids if i in self.docs}


class Made:
    """As `ir_datasets.load` gives it."""

    def __init__(self, queries, docs, qrels):
        self.queries, self.docs, self.qrels = queries, docs, qrels
        self.store = Store(docs)

    def has_queries(self):
        return bool(self.queries)

    def has_docs(self):
        return bool(self.docs)

    def has_qrels(self):
        return bool(self.qrels)

    def queries_iter(self):
        return iter(self.queries)

    def docs_iter(self):
        return iter(self.docs)

    def qrels_iter(self):
        return iter(self.qrels)

    def docs_store(self):
        return self.store


@pytest.fixture
def made(monkeypatch):
    docs = [Doc(f"d{i}", f"river {i}", "a  winter\ntown") for i in range(4)]
    found = Made(
        [Query("1", "river", "about rivers"), Query("2", "town", "about")],
        docs,
        [Qrel("1", "d0", 2, "0"), Qrel("2", "d3", -2, "0")],
    )
    registry = {"made/test": found, "made/docs": Made([], docs, [])}
    tool = types.SimpleNamespace(load=registry.__getitem__)
    monkeypatch.setitem(sys.modules, "ir_datasets", tool)
    return found


def test_a_collection_by_its_id(made):
    options = RankingDataOptions(dataset="made/test")
    said = []
    found = collections.load(options, said.append)
    assert found.topics == {"1": "river", "2": "town"}
    assert found.qrels == {"1": {"d0": 2}, "2": {"d3": -2}}
    assert said == ["2 judged queries of 2, 2 judgements"]
    every = list(found.documents())
    assert [d.id for d in every] == ["d0", "d1", "d2", "d3"]
    assert every[1].text == "river 1 a winter town"
    assert not made.store.asked
    # Candidates are looked up, not searched for.
    assert [d.id for d in found.documents({"d3", "d1", "no"})] == ["d1", "d3"]
    assert made.store.asked == ["d1", "d3", "no"]
    options = RankingDataOptions(
        dataset="made/test", topic_fields=("title", "desc")
    )
    assert collections.load(options, said.append).topics["1"] == (
        "river about rivers"
    )


def test_what_the_catalogue_lacks_is_one_line(made, monkeypatch):
    for name, message in (
        ("no/such", "--dataset=no/such cannot be read .*check the id"),
        ("made/docs", "--dataset=made/docs has no queries"),
    ):
        options = RankingDataOptions(dataset=name)
        with pytest.raises(UserError, match=message) as caught:
            collections.load(options)
        assert "\n" not in str(caught.value)
    with pytest.raises(UserError, match="query '1' has no narrative"):
        list(catalogue.topics("made/test", ("title", "narr")))
    with pytest.raises(UserError, match="leave --documents out"):
        RankingDataOptions(dataset="made/test", documents="x")
    made.queries.append(Query("1", "again", ""))
    with pytest.raises(UserError, match="made/test:3: the query '1' is alr"):
        collections.load(RankingDataOptions(dataset="made/test"))

    def broken():
        raise OSError("no\nnetwork")

    made.queries_iter = broken
    with pytest.raises(UserError, match=r"cannot be read \(no network\)"):
        collections.load(RankingDataOptions(dataset="made/test"))
    monkeypatch.setitem(sys.modules, "ir_datasets", None)
    with pytest.raises(UserError, match="requirements-irdatasets.txt"):
        catalogue.qrels("made/test").__next__()
