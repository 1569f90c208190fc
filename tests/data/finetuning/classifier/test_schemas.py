"""WNLI as schemas, by hand."""

import pytest

from common.contract.symbols import SymbolIds
from data.finetuning.classifier import schemas

PREMISE = 'The jar hit the vase, because "it" was heavy; Ann sighed.'


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
