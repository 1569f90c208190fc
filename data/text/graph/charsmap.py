"""SentencePiece's table of characters inside a TensorFlow graph.

The package `tokenizers` cuts a text into graphemes (a letter with its marks). A
grapheme of less than six bytes becomes what the shortest key says that it begins
with, as a whole; of others, and of those without a key, each character by
itself. Which characters join a grapheme the package itself is asked.

Source: Unicode Standard Annex 29, "Unicode Text Segmentation".
"""

import functools
import importlib
import types

import numpy as np
import tensorflow as tf

from data.text.graph import graph_text
from data.text.graph.graph_text import CODE_POINTS, PAGE, Flat, code_pages
from data.text.released import charsmap

# Bytes and characters of a grapheme that is looked up as a whole.
_MOST_BYTES, _MOST = 5, 3
_SHIFT = 1 << 21  # more than there are code points
_MARK, _OTHER = "\u0301", "\u0316"
_RETURN, _LINE = 0x0D, 0x0A
# What a character does to its neighbours.
_JOINS, _JOINS_NEXT, _DIVIDES = 1, 2, 3
# kind, key of a table, a text with the character, and the length of what the
# table makes of it: a grapheme that begins with the key becomes one "b".
_QUESTIONS = (
    (_JOINS, "a", lambda c: "a" + c, 1),
    # The letter does not begin its grapheme, so that the mark stays.
    (_JOINS_NEXT, "a", lambda c: c + "a" + _MARK, 3),
    (_DIVIDES, _MARK, lambda c: c + _MARK + _OTHER, 2),
)


@functools.lru_cache(maxsize=1)
def _joining() -> tuple[np.ndarray, np.ndarray]:
    """Two-stage table of characters that join others, or let nothing join."""
    package = importlib.import_module("tokenizers")
    dense = np.zeros(CODE_POINTS, np.int32)
    for kind, key, form, length in _QUESTIONS:
        table = charsmap.probe(key, "b")
        normalize = package.normalizers.Precompiled(table).normalize_str
        for first, chars in code_pages():
            texts = list(map(form, chars))
            new = normalize("\n".join(texts)).split("\n")
            if len(new) != PAGE:  # a character divides lines
                new = list(map(normalize, texts))
            hit = np.asarray([len(text) == length for text in new])
            dense[first : first + PAGE][hit] = kind
    return graph_text.two_stage(dense)


def _key(text: str) -> int:
    """Two or three characters as a number."""
    number = 0
    for char in text.ljust(_MOST, "\0"):
        number = number * _SHIFT + ord(char)
    return number


class CharsMap:
    """Flat code points -> what a table makes of them.

    Args:
      table: in base 64, as a `tokenizer.json` has it.
    """

    def __init__(self, table: str):
        rewritten = charsmap.read(table)
        alone = {ord(k): new for k, new in rewritten.items() if len(k) == 1}
        several = sorted(
            (k for k in rewritten if 1 < len(k) <= _MOST), key=_key
        )
        new = [rewritten[key] for key in several]
        index, pages, starts, lengths, values = graph_text.rewrite_tables(alone)
        # Behind the entries of characters: none, and those of longer keys.
        self._none = len(starts)
        offsets = len(values) + np.cumsum([0, *map(len, new)])[:-1]
        ints = functools.partial(tf.constant, dtype=tf.int32)
        # A module would save tuples as objects of their own.
        self._tables = types.SimpleNamespace(
            pages=(ints(index), ints(pages)),
            joining=tuple(map(ints, _joining())),
            starts=ints([*starts, 0, *offsets]),
            lengths=ints([*lengths, 0, *map(len, new)]),
            values=ints([*values, *map(ord, "".join(new))]),
            # One that no text has, for tables without such keys.
            keys=tf.constant(
                [*map(_key, several), _key("\U0010ffff" * _MOST)], tf.int64
            ),
        )

    def __call__(self, flat: Flat, segments: tf.Tensor) -> Flat:
        """Rewrites all code points; those above Unicode's stay.

        Args:
          segments: bool [n], where a text begins; nothing joins across.
        """
        tables = self._tables
        position = tf.range(tf.size(flat.points))
        entry = graph_text.lookup(tables.pages, flat.points)
        head, count = self._graphemes(flat, segments)
        whole = tf.gather(self._whole(flat.points, entry, count), head)
        hit = whole > 0
        whole = tf.where(tf.equal(head, position), whole, self._none)
        entry = tf.where(hit, whole, entry)
        # How many characters each entry stands for.
        old = tf.where(hit, tf.where(tf.equal(head, position), count, 0), 1)
        lengths = tf.gather(tables.lengths, entry)
        source, offset = graph_text.expand(lengths)
        entry = tf.gather(entry, source)
        points = tf.where(
            tf.equal(entry, 0),
            tf.gather(flat.points, source),
            tf.gather(tables.values, tf.gather(tables.starts, entry) + offset),
        )
        place = _places(old, lengths, source, offset, segments)
        return flat.take(source, points)._replace(
            starts=tf.gather(flat.starts, place),
            ends=tf.gather(flat.ends, place),
        )

    def _graphemes(self, flat: Flat, segments: tf.Tensor):
        """int32 [n]: first code point of each one's grapheme, and its size."""
        joining = graph_text.lookup(self._tables.joining, flat.points)
        joins = tf.equal(joining, _JOINS)
        joins |= graph_text.behind(tf.equal(joining, _JOINS_NEXT))
        divides = tf.equal(joining, _DIVIDES)
        joins &= ~(divides | graph_text.behind(divides))
        joins |= tf.equal(flat.points, _LINE) & graph_text.behind(
            tf.equal(flat.points, _RETURN)
        )
        begins = segments | ~joins
        heads = tf.cast(tf.where(begins)[:, 0], tf.int32)
        number = tf.cumsum(tf.cast(begins, tf.int32)) - 1
        sizes = tf.concat([heads, [tf.size(number)]], 0)[1:] - heads
        return tf.gather(heads, number), tf.gather(sizes, number)

    def _whole(self, points, entry, count) -> tf.Tensor:
        """int32 [n]: entries of the graphemes that begin at code points.

        0 where each character is for itself.
        """
        one = tf.cast(points, tf.int64)
        two, three = (
            tf.cast(graph_text.ahead(points, i), tf.int64) for i in (1, 2)
        )
        pair = (one * _SHIFT + two) * _SHIFT
        sizes = graph_text.utf8_sizes(points)
        whole = sizes + graph_text.ahead(sizes, 1)
        whole += tf.where(count > 2, graph_text.ahead(sizes, 2), 0)
        found = tf.where(entry > 0, entry, self._find(pair))
        triple = tf.where(count > 2, self._find(pair + three), 0)
        found = tf.where(found > 0, found, triple)
        short = (count > 1) & (count <= _MOST) & (whole <= _MOST_BYTES)
        return tf.where(short, found, 0)

    def _find(self, keys: tf.Tensor) -> tf.Tensor:
        """int32 [n]: entries of keys of several characters; 0 of none."""
        at, known = graph_text.find(self._tables.keys, keys)
        return tf.where(known, self._none + 1 + at, 0)


def _places(old, lengths, source, offset, segments) -> tf.Tensor:
    """int32 [m]: the code point whose place each new one has.

    As the package counts them: of a text that grows, the characters behind its
    old length have the place before theirs. What a text loses, the last
    character so far stands for; what is lost before there is one is not counted.

    Args:
      old, lengths: int32 [n], characters that stood, and stand, at each one.
      source, offset: of `graph_text.expand(lengths)`.
      segments: bool [n], where a text begins.
    """
    segment = tf.cumsum(tf.cast(segments, tf.int32)) - 1
    first = tf.cast(tf.where(segments)[:, 0], tf.int32)
    ends = tf.cumsum(lengths)
    new_first = tf.gather(ends - lengths, first)  # of each text
    last = ends - 1
    lost = tf.maximum(old - lengths, 0)
    lost = tf.where(last >= tf.gather(new_first, segment), lost, 0)
    more = tf.cast(offset >= tf.gather(old, source), tf.int32)
    more = tf.tensor_scatter_nd_sub(
        more, tf.boolean_mask(last, lost > 0)[:, tf.newaxis], lost[lost > 0]
    )
    consumed = tf.cumsum(1 - more, exclusive=True)
    text = tf.gather(segment, source)
    before = tf.gather(tf.concat([consumed, [0]], 0), new_first)
    place = consumed - tf.gather(before - first, text)
    return place - tf.cast(more > 0, tf.int32)
