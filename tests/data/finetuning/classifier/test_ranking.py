"""Rows that compete, and WNLI as schemas: by hand, on made rows."""

import numpy as np
import pytest

from common.contract.symbols import SymbolIds
from common.errors import UserError
from data.finetuning.classifier import ranked, schemas
from data.finetuning.features import table as finetune_table
from data.finetuning.features.pair_features import Sequence1D
from data.finetuning.options import ClassifierDataOptions

PREMISE = 'The jar hit the vase, because "it" was heavy; Ann sighed.'


def test_pairs_are_of_one_group():
    keys = ["q", "r", "q", "r", "q", "s"]
    right = [True, False, False, False, False, True]
    assert ranked.pairs(keys, right) == [
        *((0, 2), (0, 4)),  # every right one with every wrong one
        *((1, 1), (3, 3)),  # nothing is right
        (5, 5),  # alone
    ]


def test_paired_rows_are_the_rows():
    rows = [
        Sequence1D(list(range(10 * i, 10 * i + i)), [i] * i) for i in (1, 3, 2)
    ]
    table = finetune_table.from_sequences(
        rows,
        {"label_ids": np.array([0, 1, 1], np.int32)},
        token_columns={"ranks": np.array([5, 6, 7, 8, 9, 10], np.int32)},
    )
    made = ranked.paired(table, [(2, 0), (1, 1)])
    assert made.num_examples == 2 and made.num_rows == 4
    batch = made.batch(np.array([0, 1]), 3)
    assert batch["input_ids"].tolist() == [
        [[0, 20, 21], [0, 0, 10]],
        [[30, 31, 32], [30, 31, 32]],
    ]
    assert batch["ranks"].tolist()[0] == [[-1, 9, 10], [-1, -1, 5]]
    assert batch["label_ids"].tolist() == [1, 1]
    assert batch[ranked.RIVAL].tolist() == [1.0, 0.0]


def test_margins_choose_one_of_a_group():
    keys = ["a", "b", "a", "c", "a", "b"]
    found = ranked.margins([1.0, 3.0, 4.0, 9.0, 2.5, 3.0], keys)
    np.testing.assert_allclose(found[[0, 2, 4]], [-3.0, 1.5, -1.5])
    assert np.isnan(found[3])
    assert found[1] > 0 > found[5]  # equal scores: the first


@pytest.mark.parametrize(
    "hypothesis, candidate",
    [
        ("The jar was heavy.", "the jar"),
        ("Because the VASE was heavy", "the VASE"),
        ("Ann's jar was heavy, Ann sighed", "Ann's jar"),
        ("It was heavy.", None),
        ("The jar was light.", None),
    ],
)
def test_a_hypothesis_is_the_premise_with_a_candidate(hypothesis, candidate):
    found = schemas.find(PREMISE, hypothesis)
    if candidate is None:
        assert found is None
        return
    assert found.candidate == candidate
    assert found.before + "it" + found.after == PREMISE
    assert found.key == schemas.find(PREMISE, "The jar was heavy.").key


def test_casing_and_rivals_by_rule():
    found = schemas.find("Ann met Mary. She smiled.", "mary smiled.")
    assert (found.before, found.candidate, found.after) == (
        *("Ann met Mary. ", "Mary"),
        " smiled.",
    )
    assert schemas.rivals(found) == ["Ann"]
    alone = schemas.find(PREMISE, "The jar was heavy.")
    assert schemas.rivals(alone) == ["the vase", "Ann"]
    assert schemas.rivals(alone, 1) == ["the vase"]


def test_the_candidate_is_hidden_from_left_to_right():
    ids = SymbolIds(
        unk=0, bos=1, eos=2, cls=3, sep=4, pad=5, mask=6, eod=7, eop=8
    )
    parts = [([11, 12, 13], [21, 22], [31])]
    table = schemas.table(parts, 16, ids)
    assert table.token_ids.tolist() == [11, 12, 13, 21, 22, 31, 4, 3]
    ranks = [-1, -1, -1, 0, 1, -1, -1, -1]
    assert table.token_columns["ranks"].tolist() == ranks
    # Too long: the beginning goes first, then the end; never the candidate.
    short = schemas.table(parts, 6, ids)
    assert short.token_ids.tolist() == [13, 21, 22, 31, 4, 3]
    assert schemas.table(parts, 4, ids).token_ids.tolist() == [21, 22, 4, 3]


def test_ranking_is_for_two_tasks():
    assert ClassifierDataOptions("QNLI", "d", ranking=True).ranking
    with pytest.raises(UserError, match="--ranking is for qnli and wnli"):
        ClassifierDataOptions("rte", "d", ranking=True)
    with pytest.raises(UserError, match="ranking_beta"):
        ClassifierDataOptions("wnli", "d", ranking=True, ranking_beta=-1.0)
