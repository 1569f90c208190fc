"""Windows of a file: cached, made by workers, too narrow."""

import dataclasses

import numpy as np
import pytest

from common.errors import UserError
from data.finetuning.examples import BadRows
from data.finetuning.options import FeatureOptions, SquadDataOptions
from data.finetuning.squad import examples as squad_examples
from data.finetuning.squad import windows as squad_windows


def test_folders_of_before_answer_end_keep_their_hash():
    """The number was written by version 1502c30."""
    question = squad_examples.SquadQuestion(
        "1", "What tower?", 0, ("green tower",), 29, True, answer_end=40
    )
    paragraph = "the red river e\u0301a fl\u00f3ws by a green tower"
    file = squad_examples.SquadFile((paragraph,), (question,), False)
    wanted = "e584377eb345366921cb93223599655fb1d49cb98a1a14e939e69354b8bd4d38"
    assert squad_windows.hash_file(file) == wanted
    longer = dataclasses.replace(question, answer_end=41)
    other = squad_examples.SquadFile((paragraph,), (longer,), False)
    assert squad_windows.hash_file(other) != wanted


@pytest.mark.shared
def test_cache_is_used_only_for_the_same_content(
    golden, spiece_model, tmp_path
):
    file = squad_examples.read_squad(
        str(golden / "squad" / "dev.json"), False, BadRows()
    )
    features = FeatureOptions(spiece_model, 64, cache_dir=str(tmp_path))
    options = SquadDataOptions(max_query_length=12, doc_stride=24)
    first = squad_windows.build_split(file, features, options, False)
    again = squad_windows.build_split(file, features, options, False)
    assert (first.from_cache, again.from_cache) == (False, True)
    for name in ("token_ids", "segment_ids", "row_splits"):
        a, b = (getattr(s.windows.table, name) for s in (first, again))
        np.testing.assert_array_equal(a, b)
    other = SquadDataOptions(max_query_length=12, doc_stride=25)
    assert not squad_windows.build_split(
        file, features, other, False
    ).from_cache
    # A damaged file is made again.
    for path in tmp_path.glob("*.npz"):
        path.write_bytes(path.read_bytes()[:-400])
    assert not squad_windows.build_split(
        file, features, options, False
    ).from_cache
    assert not list(tmp_path.glob("*tmp*"))


@pytest.mark.shared
def test_workers_make_the_same_arrays(golden, spiece_model, monkeypatch):
    monkeypatch.setattr(squad_windows, "CHUNK_PARAGRAPHS", 1)
    file = squad_examples.read_squad(
        str(golden / "squad" / "train.json"), True, BadRows()
    )
    options = SquadDataOptions(max_query_length=12, doc_stride=24)
    one, two = (
        squad_windows.build_arrays(
            file, FeatureOptions(spiece_model, 64, num_workers=n), options, True
        )
        for n in (1, 2)
    )
    assert one.keys() == two.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], two[name])


def test_no_room_for_the_paragraph():
    file = squad_examples.SquadFile(("a",), (), False)
    with pytest.raises(UserError, match="leaves no room for the paragraph"):
        squad_windows.build_split(
            file, FeatureOptions("x", 64), SquadDataOptions(), False
        )
