"""Section 2.6.1 by hand, and every order tried."""

import itertools
from fractions import Fraction

import pytest

from common.errors import UserError
from modeling.explain import dependencies


def test_the_papers_example():
    found = dependencies.parse("New York is a city", ["New", "York"])
    assert found.objectives() == [
        "J(BERT) = log p(New | is a city) + log p(York | is a city)",
        "J(XLNet) = log p(New | is a city) + log p(York | New is a city)",
        "J(left to right) = log p(New) + log p(York | New)",
    ]
    covered = {
        (found.tokens[p.target], *(found.tokens[i] for i in p.context)): tuple(
            map(str, p.covered)
        )
        for p in found.pairs()
    }
    # BERT, XLNet with this order, over all orders, left to right.
    assert covered["York", "New"] == ("0", "1", "1/2", "1")
    assert covered["York", "city"] == ("1", "1", "1", "0")
    assert covered["York", "New", "city"] == ("0", "1", "1/2", "0")
    assert covered["New", "York"] == ("0", "0", "1/2", "0")
    assert len(covered) == 2 * (4 + 6)
    last = str(found).splitlines()[-1].split()
    # BERT: 3 + 3 of each target. This order: York has all ten.
    assert last == ["of", "20", "covered", "12", "16", "16", "1"]


@pytest.mark.parametrize(
    "text, targets, largest",
    [
        ("This is a sentence", ["sentence", "This", "a", "is"], 3),
        ("a b c d e", ["d", "a", "e"], 2),
    ],
)
def test_shares_are_those_of_every_order(text, targets, largest):
    found = dependencies.parse(text, targets)
    orders = list(itertools.permutations(found.order))
    for pair in found.pairs(largest):
        hits = []
        for order in orders:
            hidden = set(order[order.index(pair.target) :])
            hits.append(not hidden & set(pair.context))
        bert, given, every, left = pair.covered
        assert every == Fraction(sum(hits), len(orders))
        assert given == hits[orders.index(found.order)]
        assert bert == (not set(pair.context) & set(found.order))
        assert left == all(i < pair.target for i in pair.context)


def test_targets_by_place_and_wrong_ones():
    found = dependencies.parse("a rose is a rose", ["4", "is"])
    assert found.order == (3, 2)
    for targets in (["rose"], ["6"], ["0"], ["tulip"], ["is", "3"], []):
        with pytest.raises(UserError, match="--targets"):
            dependencies.parse("a rose is a rose", targets)
