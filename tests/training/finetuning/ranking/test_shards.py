"""Vectors in files: made once, resumed, and of other texts made anew."""

import os

import numpy as np
import pytest

from common.errors import UserError
from common.vocabularies.text_settings import TextSettings
from data.finetuning.ranking.documents import Document
from tests.training.finetuning.ranking.toy import Letters
from training.finetuning.ranking import shards
from training.finetuning.ranking.shards import Embedder
from training.finetuning.ranking.vectors import TableVectors


class Hidden(TableVectors):
    """Vectors that are stored: a layer of the pieces, one of their places."""

    def __init__(self):
        super().__init__(np.arange(52.0).reshape(26, 2) / 3)
        self.layers, self.embedded = (0, 4), 0

    def embed(self, rows):
        self.embedded += len(rows)
        ids = np.concatenate([np.zeros(0, np.int32), *rows])
        places = np.concatenate([np.zeros(0), *map(np.arange, map(len, rows))])
        first = self.table[ids]
        return np.stack([first, first * 0 + places[:, np.newaxis]])


def embedder(folder, vectors=None, dtype="float32"):
    return Embedder(vectors or Hidden(), Letters(), str(folder), dtype)


def test_a_shard_holds_the_first_pieces_of_its_texts(tmp_path):
    made = embedder(tmp_path)
    shard = made.shard("documents", ["x", "y", "z"], ["abcd", "", "ba"], 3)
    arrays = shard.load()
    assert arrays["ids"].tolist() == [0, 1, 2, 1, 0]
    assert arrays["splits"].tolist() == [0, 3, 3, 5]
    assert arrays["states"].shape == (2, 5, 2)
    assert arrays["states"][1, :, 0].tolist() == [0, 1, 2, 0, 1]
    pieces = {name: ids.tolist() for name, ids in shard.pieces()}
    assert pieces == {"x": [0, 1, 2], "y": [], "z": [1, 0]}
    assert os.path.basename(shard.path).startswith("documents-")


def test_a_table_stores_no_vectors_and_halves_are_stored(tmp_path):
    table = embedder(tmp_path, TableVectors(np.ones((26, 3))))
    assert "states" not in table.shard("q", ["x"], ["abc"], 9).load()
    half = embedder(tmp_path, dtype="float16").shard("q", ["x"], ["abc"], 9)
    assert half.load()["states"].dtype == np.float16


def test_what_was_made_is_taken_and_nothing_else(tmp_path):
    first = embedder(tmp_path)
    path = first.shard("documents", ["x"], ["abc"], 3).path
    again = embedder(tmp_path)
    assert again.shard("documents", ["x"], ["abc"], 3).path == path
    assert (again.made, again.reused, again.vectors.embedded) == (0, 1, 0)
    others = {
        embedder(tmp_path).shard("documents", ["y"], ["abc"], 3).path,
        embedder(tmp_path).shard("documents", ["x"], ["abd"], 3).path,
        embedder(tmp_path).shard("documents", ["x"], ["abc"], 2).path,
        embedder(tmp_path).shard("queries", ["x"], ["abc"], 3).path,
        embedder(tmp_path, dtype="float16").shard("d", ["x"], ["abc"], 3).path,
    }
    assert len(others | {path}) == 6
    for part, value in (("sha256", "another"), ("settings", None)):
        made = embedder(tmp_path)
        if part == "settings":
            value = TextSettings(uncased=True)
        setattr(made.tokenizer, part, value)
        assert made.shard("documents", ["x"], ["abc"], 3).path != path


def test_a_damaged_shard_is_made_again_or_said(tmp_path):
    shard = embedder(tmp_path).shard("documents", ["x"], ["abc"], 3)
    with open(shard.path, "r+b") as f:
        f.truncate(40)
    with pytest.raises(
        UserError, match="is missing or damaged: remove it"
    ) as e:
        shard.load()
    assert shard.path in str(e.value) and "\n" not in str(e.value)
    again = embedder(tmp_path)
    again.shard("documents", ["x"], ["abc"], 3)
    assert again.made == 1 and shard.load()["ids"].tolist() == [0, 1, 2]
    os.remove(shard.path)
    with pytest.raises(UserError, match="is missing or damaged"):
        list(shard.pieces())


def stream(*names, texts="abc"):
    return (Document(n, texts, "f", i) for i, n in enumerate(names))


def test_documents_fill_shards_in_their_order(tmp_path):
    made = embedder(tmp_path)
    made.documents_per_shard = lambda length: 2
    said = []
    found = made.documents(
        stream("d1", "no", "d2", "d3"), {"d1", "d2", "d3"}, 2, said.append
    )
    assert [shard.names for shard in found] == [("d1", "d2"), ("d3",)]
    assert said[0].startswith(
        "vectors of 3 documents (0 from an earlier run) in 2 shards, "
    )
    assert said[0].endswith(" documents/s")


def test_a_run_that_breaks_off_goes_on_with_the_next_shard(tmp_path):
    def broken():
        yield from stream("d1", "d2", "d3")
        raise KeyboardInterrupt

    wanted = {"d1", "d2", "d3", "d4"}
    first, second = embedder(tmp_path), embedder(tmp_path)
    for made in (first, second):
        made.documents_per_shard = lambda length: 2
    with pytest.raises(KeyboardInterrupt):
        first.documents(broken(), wanted, 2, str)
    said = []
    second.documents(stream("d1", "d2", "d3", "d4"), wanted, 2, said.append)
    assert (second.made, second.reused) == (2, 2)
    assert "(2 from an earlier run)" in said[0]
    said.clear()
    third = embedder(tmp_path)
    third.documents_per_shard = second.documents_per_shard
    third.documents(stream("d1", "d2", "d3", "d4"), wanted, 2, said.append)
    assert said == [
        "vectors of 4 documents (4 from an earlier run) in 2 shards"
    ]


def test_candidates_that_are_not_there_or_twice(tmp_path):
    made = embedder(tmp_path)
    with pytest.raises(UserError, match="lacks 1 of 2 candidates, .* 'd9'"):
        made.documents(stream("d1"), {"d1", "d9"}, 2, str)
    with pytest.raises(UserError, match="f:1: .*'d1' comes a second time"):
        made.documents(stream("d1", "d1"), {"d1"}, 2, str)


@pytest.mark.parametrize("length", [1, 700, 40_000, 10**9])
def test_shards_have_a_bounded_size(tmp_path, length):
    """Two layers of two float32 numbers a piece; never no document."""
    found = embedder(tmp_path).documents_per_shard(length)
    assert 1 <= found <= shards.MAX_SHARD
    one = length * 2 * 2 * 4
    assert found == 1 or found * one <= shards.SHARD_BYTES
    assert found == shards.MAX_SHARD or (found + 1) * one > shards.SHARD_BYTES


def test_a_speed_is_said_where_something_was_made(monkeypatch):
    monkeypatch.setattr(shards.time, "monotonic", lambda: 12.0)
    assert shards.per_second(50, "pairs", 10.0) == ", 25 pairs/s"
    assert shards.per_second(0, "pairs", 10.0) == ""
    assert shards.per_second(1, "pairs", 12.0).endswith(" pairs/s")
