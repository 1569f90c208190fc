"""Which dependencies an objective trains (XLNet, sections 2.6.1 and 2.6.2).

A pair (x, U), a target and a set of other tokens, is covered by an objective
with the loss terms log p(x | V_x) iff U is part of V_x:

    BERT           V_x = N, the tokens that are no targets
    XLNet          V_x = N and the targets before x in the order
    left to right  V_x = the tokens before x in the text
"""

import dataclasses
import itertools
from collections.abc import Sequence
from fractions import Fraction

from common.errors import UserError

OBJECTIVES = ("BERT", "XLNet, this order", "XLNet, all orders", "left to right")


@dataclasses.dataclass(frozen=True)
class Pair:
    """A dependency and how much of it each objective covers."""

    target: int  # place of x, from 0
    context: tuple[int, ...]  # places of U, ascending
    # of each of `OBJECTIVES`, the share of its draws; all but the third are
    # 0 or 1
    covered: tuple[Fraction, ...]


@dataclasses.dataclass(frozen=True)
class Dependencies:
    """A sentence with its targets."""

    tokens: tuple[str, ...]
    # places of the targets, from 0, the first predicted first
    order: tuple[int, ...]

    def seen(self, target: int) -> tuple[set[int], set[int], set[int]]:
        """V_x of BERT, of XLNet under this order, and from left to right."""
        rest = set(range(len(self.tokens))) - set(self.order)
        before = set(self.order[: self.order.index(target)])
        return rest, rest | before, set(range(target))

    def pairs(self, largest: int = 2) -> list[Pair]:
        """All pairs with 1 to `largest` tokens in U, by target and size."""
        pairs = []
        for target in sorted(self.order):
            others = [i for i in range(len(self.tokens)) if i != target]
            seen = [set(v) for v in self.seen(target)]
            for size in range(1, largest + 1):
                for context in itertools.combinations(others, size):
                    bert, ordered, left = (
                        Fraction(int(v.issuperset(context))) for v in seen
                    )
                    # Of x and the targets in U, x is as often last as any.
                    targets = len(set(context) & set(self.order))
                    shares = (bert, ordered, Fraction(1, targets + 1), left)
                    pairs.append(Pair(target, context, shares))
        return pairs

    def objectives(self) -> list[str]:
        """The sums of log p(x | V_x), as section 2.6.1 writes them."""
        ends = {"BERT": 0, "XLNet": 1, "left to right": 2}
        lines = []
        for name, which in ends.items():
            terms = []
            for target in self.order:
                seen = self.seen(target)
                context = sorted(seen[which])
                if which == 1:  # targets first, in their order
                    new = [i for i in self.order if i in seen[1] - seen[0]]
                    context = new + sorted(seen[0])
                words = " ".join(self.tokens[i] for i in context)
                bar = f" | {words}" if words else ""
                terms.append(f"log p({self.tokens[target]}{bar})")
            lines.append(f"J({name}) = {' + '.join(terms)}")
        return lines

    def __str__(self) -> str:
        pairs = self.pairs()
        rows = [("x", "U", *OBJECTIVES)]
        for pair in pairs:
            words = " ".join(self.tokens[i] for i in pair.context)
            shares = map(str, pair.covered)
            rows.append((self.tokens[pair.target], words, *shares))
        totals = [
            sum(of) for of in zip(*(p.covered for p in pairs), strict=True)
        ]
        rows.append((f"of {len(pairs)}", "covered", *map(str, totals)))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        table = [
            "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True))
            for row in rows
        ]
        order = " ".join(self.tokens[i] for i in self.order)
        return "\n".join(
            [f"targets, in their order: {order}", "", *self.objectives(), ""]
            + ["covered (share of the orders):", *(t.rstrip() for t in table)]
        )


def parse(text: str, targets: Sequence[str]) -> Dependencies:
    """Words and targets, words or places from 1, of the command line.

    Raises UserError: a target that is no word of the text, several of them, or
    given twice.
    """
    tokens = tuple(text.split())
    order = []
    for target in targets:
        places = [i for i, token in enumerate(tokens) if token == target]
        if not places and target.isdecimal():
            places = [i for i in range(len(tokens)) if i + 1 == int(target)]
        if len(places) != 1:
            raise UserError(
                "--targets needs words of the text or their places from 1 to "
                f"{len(tokens)}; {target!r} is {len(places)} of its words"
            )
        order += places
    if not order or len(set(order)) < len(order):
        raise UserError(
            f"--targets must name different words, received {list(targets)}"
        )
    return Dependencies(tokens, tuple(order))
