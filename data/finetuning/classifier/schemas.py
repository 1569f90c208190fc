"""WNLI rows as Winograd schemas: a sentence with a pronoun, and candidates.

WNLI's hypothesis is a part of the premise with a candidate in the pronoun's
place. Which words these are is found again by comparing words without case and
punctuation.
"""

import dataclasses
import re
from collections.abc import Sequence

import numpy as np

from common.contract import symbols
from data.finetuning.features import pair_features
from data.finetuning.features import table as finetune_table
from data.finetuning.features.table import FeatureTable

PRONOUNS = frozenset(
    "he him his she her hers it its they them their theirs".split()
)
_ARTICLES = frozenset("the a an his her their its my our your".split())
# No part of a noun phrase that a rule could find; enough for a rival.
_OTHERS = frozenset(
    "i you we me us him he she it they them who which that this these those "
    "there when while because so but and or if as at by for from in into of "
    "off on onto out over to up with was were is are be been had has have did "
    "do does not no could would should can will since though although after "
    "before until than then what where why how very too more through beside under "
    "behind about around near everyone everything always yet".split()
)
_LONGEST = 8  # words of a candidate
_CHUNK = 2  # words after an article


@dataclasses.dataclass(frozen=True)
class Schema:
    """A premise with its pronoun taken out."""

    before: str  # the text before the pronoun
    candidate: str  # what the hypothesis puts there
    after: str  # the text after the pronoun

    @property
    def key(self) -> tuple[str, str]:
        """Of all candidates for this pronoun."""
        return self.before, self.after


def find(premise: str, hypothesis: str) -> Schema | None:
    """The schema of a row; None where the hypothesis is no such part.

    The longest common context wins, then the shortest candidate, then the
    first pronoun.
    """
    words, said = _words(premise), _words(hypothesis)
    bare = [_bare(text) for text, _, _ in words]
    wanted = [_bare(text) for text, _, _ in said]
    for size in range(1, min(_LONGEST, len(wanted)) + 1):
        for at, word in enumerate(bare):
            if word not in PRONOUNS:
                continue
            for start in range(len(wanted) - size + 1):
                left, right = wanted[:start], wanted[start + size :]
                first, last = at - start, at + 1 + len(right)
                if first < 0 or last > len(bare) or not left + right:
                    continue
                if bare[first:at] != left or bare[at + 1 : last] != right:
                    continue
                if wanted[start : start + size] == [word]:
                    continue  # the pronoun itself
                return _schema(
                    premise, words[at], hypothesis, said, start, size
                )
    return None


def _schema(premise, pronoun, hypothesis, said, start, size) -> Schema:
    first, end = said[start][1], said[start + size - 1][2]
    core = _core(*pronoun)
    candidate = hypothesis[first:end].strip(',.;:!?"')
    return Schema(
        premise[: core[0]],
        _cased(candidate, premise, premise[core[0] : core[1]]),
        premise[core[1] :],
    )


def rivals(schema: Schema, most: int = 3) -> list[str]:
    """Other noun phrases of the premise by a small rule, at most so many.

    An article or possessive with the words behind it, and names: capitals that
    do not begin the text. None shares a word with the candidate.
    """
    text = f"{schema.before} _ {schema.after}"
    words = _words(text)
    taken = {_bare(w) for w in schema.candidate.split()} - _ARTICLES
    phrases: list[str] = []
    at = 0
    while at < len(words):
        size = _chunk(words, at)
        phrase = [words[i][0] for i in range(at, at + size)]
        at += max(1, size)
        chunk = " ".join(phrase).strip(",.;:!?\"'")
        parts = {_bare(w) for w in phrase}
        if (
            chunk
            and not parts & taken
            and not any(parts <= {*map(_bare, f.split())} for f in phrases)
        ):
            phrases.append(_cased(chunk, text, "x"))
    return phrases[:most]


def table(
    tokenized: Sequence[Sequence[Sequence[int]]],
    max_length: int,
    ids: symbols.SymbolIds,
) -> FeatureTable:
    """Rows `before candidate after SEP CLS` of T tokens, the candidate hidden.

    What is too much is cut at the beginning, then at the end. With the token
    column `ranks` int32: 0, 1, ... in the candidate from left to right, -1
    elsewhere.
    """
    rows, ranks = [], []
    for before, candidate, after in tokenized:
        candidate = list(candidate)[: max_length - 2]
        room = max_length - 2 - len(candidate)
        left = list(before)[max(0, len(before) + len(after) - room) :]
        text = [*left, *candidate, *list(after)[: room - len(left)]]
        row = pair_features.join_segments([text], max_length, ids)
        order = np.full(len(row.ids), -1, np.int32)
        order[len(left) :][: len(candidate)] = np.arange(len(candidate))
        rows.append(row)
        ranks.append(order)
    return finetune_table.from_sequences(
        rows, token_columns={"ranks": np.concatenate(ranks)}
    )


def _chunk(words, at: int) -> int:
    """Words of the noun phrase that begins here; 0 = none does."""
    text = words[at][0]
    if _bare(text) in _ARTICLES and text[-1].isalpha():
        size = 1
        while size <= _CHUNK and at + size < len(words):
            bare = _bare(words[at + size][0])
            if bare in _OTHERS | _ARTICLES or not bare.isalpha():
                break
            size += 1
            if words[at + size - 1][0][-1] in ",.;:!?":
                break
        return size if size > 1 else 0
    bare = _bare(text)
    name = (
        text[:1].isupper() and bare not in _OTHERS | PRONOUNS and bare.isalpha()
    )
    return 1 if name else 0


def _words(text: str) -> list[tuple[str, int, int]]:
    """Words between blanks with the characters where they are."""
    return [(m[0], m.start(), m.end()) for m in re.finditer(r"\S+", text)]


def _bare(word: str) -> str:
    return re.sub(r"[^\w']", "", word).strip("'").casefold()


def _core(word: str, begin: int, end: int) -> tuple[int, int]:
    """The word's characters without punctuation around it."""
    left = len(word) - len(word.lstrip("\"'(,.;:!?"))
    right = len(word) - len(word.rstrip("\"'),.;:!?"))
    return begin + left, end - right


def _cased(candidate: str, premise: str, pronoun: str) -> str:
    """The candidate as the premise writes it, in the pronoun's place."""
    first = candidate.split()[0]
    if first.casefold() in _ARTICLES or first.lower() in premise.split():
        candidate = first.lower() + candidate[len(first) :]
    if pronoun[:1].isupper():
        candidate = candidate[:1].upper() + candidate[1:]
    return candidate
