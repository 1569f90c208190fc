"""Added tokens of a `tokenizer.json`, found in text inside a graph.

    code points -> longest token at each -> the leftmost that do not overlap

A token that is found becomes one code point above all of Unicode, so that no
later step changes or cuts it.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from common.errors import UserError
from data.text.graph.graph_text import CODE_POINTS, Flat, find

_NONE = -1
_SHIFT = 1 << 21  # more than there are code points
_MOST_CHARACTERS = 1_000_000  # of all; a state of the trie takes 200 bytes


class AddedToken(NamedTuple):
    """One of `added_tokens`."""

    text: str  # as it stands in texts
    id: int
    lstrip: bool  # white space before it belongs to it
    normalized: bool  # it is looked for in normalised text
    special: bool  # it stands for no text


def read(
    rules: dict,
    package,
    path: str,
    refused: Sequence[str] = ("single_word", "rstrip"),
) -> list[AddedToken]:
    """The added tokens of a `tokenizer.json`.

    Raises UserError: one has a rule that the graph does not have, or they are
    too long together.
    """
    tokens = []
    rows = rules.get("added_tokens") or ()
    characters = sum(len(row["content"]) for row in rows)
    if characters > _MOST_CHARACTERS:
        raise UserError(
            f"{path}: wanted added tokens of at most {_MOST_CHARACTERS} "
            f"characters together, found {characters}; a graph looks for each: "
            "predict with --do_predict"
        )
    for row in rows:
        wrong = [name for name in refused if row.get(name)]
        if wrong:
            raise UserError(
                f"{path}: added token {row['content']!r} is "
                f"{', '.join(wrong)}; a graph reads added tokens only as they "
                "stand in the text: export is not possible, predict with "
                "--do_predict"
            )
        text, normalized = row["content"], bool(row.get("normalized"))
        # Of a damaged file the package takes other ids than it says.
        number = package.token_to_id(text)
        if normalized and package.normalizer is not None:
            text = package.normalizer.normalize_str(text)
        lstrip, special = bool(row.get("lstrip")), bool(row.get("special"))
        if text:
            tokens.append(AddedToken(text, number, lstrip, normalized, special))
    return tokens


class Trie:
    """Texts as states: 0 is before the first code point, -1 is none.

    `ends`, int32 [states], is the number of the text that ends there, else -1.
    """

    def __init__(self, texts: Sequence[str]):
        keys, nexts, ends = _trie(texts)
        self._keys = tf.constant(keys, tf.int64)
        self._nexts = tf.constant(nexts, tf.int32)
        self.ends = tf.constant(ends, tf.int32)

    def next(self, state: tf.Tensor, point: tf.Tensor) -> tf.Tensor:
        """State of the trie after one more code point, -1 without one."""
        key = tf.cast(state, tf.int64) * _SHIFT + tf.cast(point, tf.int64)
        index, known = find(self._keys, key)
        known &= point < CODE_POINTS
        return tf.where(known, tf.gather(self._nexts, index), _NONE)


def finders(
    tokens: Sequence[AddedToken],
) -> tuple["TokenFinder | None", "TokenFinder | None", tf.Tensor]:
    """What finds tokens in raw and in normalised text, and the ids of both.

    Code points are numbered from `CODE_POINTS` on, in the order of the ids,
    int32 [tokens].
    """
    raw = [t for t in tokens if not t.normalized]
    late = [t for t in tokens if t.normalized]
    return (
        TokenFinder(raw, CODE_POINTS) if raw else None,
        TokenFinder(late, CODE_POINTS + len(raw)) if late else None,
        tf.constant([t.id for t in (*raw, *late)] or [0], tf.int32),
    )


class TokenFinder:
    """Replaces tokens in code points, as the package `tokenizers` does.

    Of the distinct texts `tokens` one is looked for as far as it is the
    longest, and from the left; the first becomes the code point `first_code`.
    """

    def __init__(self, tokens: Sequence[AddedToken], first_code: int):
        self._first_code = first_code
        self._trie = Trie([token.text for token in tokens])
        self._sizes = tf.constant([len(t.text) for t in tokens], tf.int32)
        self._lstrip = tf.constant([t.lstrip for t in tokens])

    def __call__(self, flat: Flat, white: tf.Tensor) -> Flat:
        """One code point for each token; `white` bool [n] is white space."""
        token = self._longest(flat)  # [n]
        at = tf.cast(tf.where(token >= 0)[:, 0], tf.int32)
        at = tf.boolean_mask(at, self._leftmost(at, tf.gather(token, at)))
        token = tf.gather(token, at)
        end = at + tf.gather(self._sizes, token)
        start = self._strip(flat, white, token, at, end)
        points = tf.tensor_scatter_nd_update(
            flat.points, start[:, tf.newaxis], self._first_code + token
        )
        ends = tf.tensor_scatter_nd_update(
            flat.ends, start[:, tf.newaxis], tf.gather(flat.ends, end - 1)
        )
        # +1 behind the first code point of a token, -1 behind its last.
        steps = tf.repeat([1, -1], tf.size(at))
        inside = tf.math.unsorted_segment_sum(
            steps,
            tf.concat([start + 1, end], 0),
            tf.size(points) + 1,
        )
        keep = tf.equal(tf.cumsum(inside)[:-1], 0)
        source = tf.cast(tf.where(keep)[:, 0], tf.int32)
        flat = flat._replace(ends=ends)
        return flat.take(source, tf.gather(points, source))

    def _longest(self, flat: Flat) -> tf.Tensor:
        """int32 [n]: number of the longest token that begins at each."""
        count = tf.size(flat.points)
        points = tf.concat([flat.points, [CODE_POINTS - 1]], 0)
        rows = tf.concat([flat.rows, [_NONE]], 0)

        def step(offset, at, state, longest):
            position = tf.minimum(at + offset, count)
            state = self._trie.next(state, tf.gather(points, position))
            here = tf.equal(tf.gather(rows, position), tf.gather(rows, at))
            live = here & (state >= 0)
            at, state = (tf.boolean_mask(x, live) for x in (at, state))
            token = tf.gather(self._trie.ends, state)
            ended = token >= 0
            longest = tf.tensor_scatter_nd_update(
                longest,
                tf.boolean_mask(at, ended)[:, tf.newaxis],
                tf.boolean_mask(token, ended),
            )
            return offset + 1, at, state, longest

        vector = tf.TensorShape([None])
        return tf.while_loop(
            lambda _, at, *__: tf.size(at) > 0,
            step,
            (
                0,
                tf.range(count),
                tf.zeros_like(flat.points),
                tf.fill([count], _NONE),
            ),
            (tf.TensorShape([]), vector, vector, vector),
        )[-1]

    def _leftmost(self, at: tf.Tensor, token: tf.Tensor) -> tf.Tensor:
        """bool [m]: those that a scan from the left takes.

        Each token leads to the next one that begins behind its end.
        """
        after = at + tf.gather(self._sizes, token)
        jump = tf.concat([tf.searchsorted(at, after), [tf.size(at)]], 0)
        return follow(jump, 0)[:-1]

    def _strip(self, flat, white, token, at, end) -> tf.Tensor:
        """Starts, before the white space that belongs to a token."""
        solid = tf.concat(
            [[_NONE], tf.cast(tf.where(~white)[:, 0], tf.int32)], 0
        )
        before = tf.gather(solid, tf.searchsorted(solid, at) - 1) + 1
        row_starts = tf.cumsum(flat.lengths(), exclusive=True)
        row_start = tf.gather(row_starts, tf.gather(flat.rows, at))
        last_end = tf.concat([[0], end], 0)[: tf.size(at)]
        start = tf.maximum(tf.maximum(before, row_start), last_end)
        return tf.where(tf.gather(self._lstrip, token), start, at)


def follow(jump: tf.Tensor, first: tf.Tensor | int) -> tf.Tensor:
    """bool [n]: places on the way from the first one, in doubling steps.

    `jump` int32 [n] is where each place leads; the way's end leads to itself.
    """
    count = tf.size(jump)

    def double(reach, jump, taken):
        new = tf.boolean_mask(jump, taken)
        taken = tf.tensor_scatter_nd_update(
            taken, new[:, tf.newaxis], tf.ones_like(new, tf.bool)
        )
        return reach * 2, tf.gather(jump, jump), taken

    return tf.while_loop(
        lambda reach, *_: reach < count,
        double,
        (1, jump, tf.equal(tf.range(count), first)),
    )[-1]


def _trie(texts: Sequence[str]) -> tuple[list, list, np.ndarray]:
    """(sorted keys of state and code point, next states, token per state)."""
    edges: dict[tuple[int, str], int] = {}
    ends = {}
    for number, text in enumerate(texts):
        state = 0
        for char in text:
            state = edges.setdefault((state, char), len(edges) + 1)
        ends.setdefault(state, number)
    keys = {s * _SHIFT + ord(c): new for (s, c), new in edges.items()}
    tokens = np.full(len(edges) + 1, _NONE, np.int32)
    for state, number in ends.items():
        tokens[state] = number
    return sorted(keys), [keys[key] for key in sorted(keys)], tokens
