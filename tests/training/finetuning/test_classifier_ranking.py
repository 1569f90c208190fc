"""Candidates for a pronoun: all of their pieces count, or none is taken."""

import pytest

from common.contract.symbols import SymbolIds
from common.errors import UserError
from data.finetuning.classifier.ranked import candidate_table
from data.finetuning.classifier.schemas import Schema

IDS = SymbolIds(unk=0, bos=1, eos=2, cls=3, sep=4, pad=5, mask=6, eod=7, eop=8)


@pytest.mark.parametrize("length, most", [(40, 24), (20, 18)])
def test_a_candidate_of_more_pieces_than_are_summed_is_refused(length, most):
    rows = [Schema("A ", "b", " c."), Schema("A ", "long one", " c.")]
    parts = [([11], [12], [13]), ([11], [9] * most, [13])]
    table = candidate_table(rows, parts, length, IDS, "dev.tsv")
    assert table.token_columns["ranks"].max() == most - 1
    parts[1] = ([11], [9] * (most + 1), [13])
    found = f"dev.tsv: the candidate 'long one' has {most + 1} pieces, wanted"
    with pytest.raises(UserError, match=f"{found} at most {most},"):
        candidate_table(rows, parts, length, IDS, "dev.tsv")
