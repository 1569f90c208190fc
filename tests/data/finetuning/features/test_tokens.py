"""Texts of examples become ids in parallel, each text once."""

import os

import numpy as np
import pytest

from common.errors import UserError
from data.finetuning.features import tokens
from tests.helpers.runs import builds


class Letters:
    """Ids are code points; counts what it is asked for."""

    def __init__(self):
        self.asked = []

    def encode_batch(self, texts):
        self.asked += texts
        return [np.array([*map(ord, text)], np.int32) for text in texts]

    def encode_spans_batch(self, texts):
        ids = [np.array([*map(ord, text)]) for text in texts]
        places = [np.arange(len(text)) for text in texts]
        return list(zip(ids, places, [p + 1 for p in places], strict=True))


@pytest.fixture
def letters(monkeypatch):
    made = Letters()
    monkeypatch.setattr(tokens, "open_tokenizer", lambda *_: made)
    return made


def test_equal_texts_that_follow_each_other_are_encoded_once(letters):
    groups = [("ab", "c"), ("ab", "d", "d"), ("e",), ("ab", "c")]
    found = tokens.encode_groups(groups, "unused")
    as_text = [["".join(map(chr, ids)) for ids in row] for row in found]
    assert as_text == [list(group) for group in groups]
    # The last group's texts are not those of the group before.
    assert letters.asked == ["ab", "c", "d", "e", "ab", "c"]


def test_spans_are_arrays(letters):
    (found,) = tokens.encode_with_offsets(letters, ["xyz"])
    assert found.ids.tolist() == [120, 121, 122]
    assert found.start.tolist() == [0, 1, 2]
    assert found.end.tolist() == [1, 2, 3]
    assert found.ids.dtype == found.end.dtype == np.int32


def test_processes_give_the_same_ids(tmp_path, monkeypatch):
    corpus = builds.write_corpus(tmp_path / "corpus.txt")
    model = builds.train_spiece(tmp_path, corpus)
    monkeypatch.setattr(tokens, "CHUNK_TEXTS", 2)
    groups = [(f"the tower {i}", "a lamp") for i in range(5)]
    one, two = (tokens.encode_groups(groups, model, None, n) for n in (1, 2))
    assert len(one) == 5
    for a, b in zip(one, two, strict=True):
        assert [x.tolist() for x in a] == [x.tolist() for x in b]


def end(tokenizer, chunk):
    os._exit(9)


def test_a_killed_worker_names_the_flag_of_these_commands(spiece_model):
    with pytest.raises(UserError, match="with a smaller --num_proc if"):
        tokens.in_workers(end, [["a"], ["b"]], spiece_model, None, 2)
