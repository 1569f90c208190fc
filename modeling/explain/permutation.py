"""A factorization order made visible: who sees whom, and the factors."""

import dataclasses
import unicodedata
import warnings

import numpy as np
import tensorflow as tf

from common import figures
from common.errors import UserError
from modeling.attention import masks


@dataclasses.dataclass(frozen=True)
class Explanation:
    """One sentence under one order."""

    tokens: tuple[str, ...]
    order: tuple[int, ...]  # places from 1, first predicted first
    query: np.ndarray  # int [T, T], 1 = i may see j in the query stream
    content: np.ndarray  # int [T, T], the same for the content stream

    def factors(self) -> list[str]:
        """`Pr(x_i | what it sees, in the order it was predicted)`."""
        lines = []
        for step, position in enumerate(self.order):
            seen = [self.tokens[p - 1] for p in self.order[:step]]
            condition = f" | {', '.join(seen)}" if seen else ""
            lines.append(f"Pr({self.tokens[position - 1]}{condition})")
        return lines

    def masked_factors(self) -> list[str]:
        """Each token given what it sees and where, in the order of the text.

        `*+i` is the position that is predicted, `___` a token that is not seen.
        """
        lines = []
        for position, token in enumerate(self.tokens):
            condition = [
                f"{seen}+{i + 1}" if self.query[position, i] else "___"
                for i, seen in enumerate(self.tokens)
            ]
            condition[position] = f"*+{position + 1}"
            lines.append(f"Pr({token} | {', '.join(condition)})")
        return lines

    def __str__(self) -> str:
        parts = [
            f"order: {', '.join(map(str, self.order))}",
            "",
            "query stream (predicts x_i without seeing it), 1 = may see:",
            _table(self.tokens, self.query),
            "",
            "content stream (encodes x_i), 1 = may see:",
            _table(self.tokens, self.content),
            "",
            "factors:",
            *(f"  {line}" for line in self.factors()),
            "",
            "the same with places (* is predicted, ___ is not seen):",
            *(f"  {line}" for line in self.masked_factors()),
        ]
        return "\n".join(parts)


def explain(tokens: list[str], order: tuple[int, ...]) -> Explanation:
    """The masks that the model uses for an order, every token a target.

    Raises UserError: `order` is no permutation of the places 1..T.
    """
    count = len(tokens)
    if not count:
        raise UserError("the text is empty: give at least one word")
    if sorted(order) != list(range(1, count + 1)):
        raise UserError(
            f"--order must hold each of 1..{count} once, as the text has "
            f"{count} tokens ({' '.join(tokens)}), found "
            f"{','.join(map(str, order))}"
        )
    ranks = np.zeros([1, count], np.int32)
    ranks[0, np.array(order) - 1] = np.arange(count)
    attention = masks.attention_masks(
        count,
        0,
        perm_mask=masks.rank_mask(tf.constant(ranks), tf.ones([1, count])),
        two_streams=True,
    )
    return Explanation(
        tuple(tokens),
        tuple(order),
        (attention.query[0].numpy() == 0).astype(int),
        (attention.content[0].numpy() == 0).astype(int),
    )


def draw(explanation: Explanation, path: str) -> None:
    """Draws both matrices side by side as PNG or SVG, by the path's ending.

    Tokens are written in `figures.families` of them. Raises UserError: see
    `figures.check_path`.
    """
    figures.check_path(path)
    count = len(explanation.tokens)
    longest = max(_width(token) for token in explanation.tokens)
    size = 1.5 + 0.5 * count + 0.08 * longest
    families = figures.families(explanation.tokens)
    tokens = [figures.literal(token) for token in explanation.tokens]
    figure, (both,) = figures.new(
        1, 2, figsize=(2 * size + 1, size + 0.5), layout=None
    )
    streams = (
        ("query stream", explanation.query),
        ("content stream", explanation.content),
    )
    for axes, (title, matrix) in zip(both, streams, strict=True):
        axes.imshow(matrix, cmap="Blues", vmin=0, vmax=1.4)
        axes.set_title(title)
        axes.set_xlabel("may see")
        axes.set_xticks(range(count), tokens, rotation=90)
        axes.set_yticks(range(count), tokens)
        for label in (*axes.get_xticklabels(), *axes.get_yticklabels()):
            label.set_fontfamily(families)
        for row in range(count):
            for column in range(count):
                what = matrix[row, column]
                axes.text(column, row, what, ha="center", va="center")
    # Sizes in points: a line of 30 places is as wide as the picture.
    figure.suptitle(f"order {', '.join(map(str, explanation.order))}")
    with warnings.catch_warnings():
        # The caller is told by `figures.note`.
        warnings.filterwarnings("ignore", "Glyph")
        figure.tight_layout()
        figures.write(figure, path)


def _width(text: str) -> int:
    """Columns of a terminal: Chinese, Japanese and Korean take two."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    marks = sum(unicodedata.combining(c) > 0 for c in text)
    return len(text) + wide - marks


def _table(tokens, matrix) -> str:
    width = max(map(_width, tokens))
    lines = [
        f"  {' ' * (width - _width(token))}{token}  " + " ".join(map(str, row))
        for token, row in zip(tokens, matrix, strict=True)
    ]
    return "\n".join(lines)
