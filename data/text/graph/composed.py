"""Unicode's composed forms (NFC, NFKC) inside a TensorFlow graph.

    code points -> decomposed -> marks in order -> composed, pair by pair

The package `tokenizers` itself fills the tables, so that the Unicode version is
its own; spans are its own, too: a composed character has the span of the first
of its raw characters.
"""

import functools
import unicodedata

import numpy as np
import tensorflow as tf

from data.text.graph import graph_text
from data.text.graph.graph_text import CODE_POINTS, PAGE, Flat, code_pages

_SHIFT = 1 << 21  # more than there are code points
_LOW, _HIGH = "\u0334", "\u0345"  # marks of the lowest and the highest class
_MARKER = "|"


def rewritten(normalize) -> dict[int, str]:
    """Code point -> what a function of texts makes of it, where it changes.

    `normalize` changes each code point for itself, and "|" not at all.
    """
    rewritten_points = {}
    for first, chars in code_pages():
        new = normalize(_MARKER.join(chars)).split(_MARKER)
        if len(new) != PAGE:  # a character is the marker, or becomes it
            new = [normalize(c) for c in chars]
        for i, (old, one) in enumerate(zip(chars, new, strict=True)):
            if old != one:
                rewritten_points[first + i] = one
    return rewritten_points


@functools.lru_cache(maxsize=2)
def _tables(compatible: bool):
    """(decompositions, classes, pairs, composites, active), by the package."""
    import tokenizers

    apart = tokenizers.normalizers.NFD().normalize_str
    together = tokenizers.normalizers.NFC().normalize_str
    decomposed = rewritten(apart)
    pairs = {}
    for point, text in decomposed.items():
        if len(text) > 1 and together(text) == chr(point):
            first = together(text[:-1])
            pairs[ord(first) * _SHIFT + ord(text[-1])] = point
    keys = np.asarray(sorted(pairs), np.int64)
    classes = _classes(apart)
    active = (classes > 0).astype(np.int32)
    active[keys % _SHIFT] = 1
    active[list(rewritten(together))] = 1
    if compatible:
        decomposed = rewritten(tokenizers.normalizers.NFKD().normalize_str)
        active[list(decomposed)] = 1
    return (
        graph_text.rewrite_tables(decomposed),
        graph_text.two_stage(classes),
        keys,
        np.asarray([pairs[key] for key in keys], np.int32),
        graph_text.two_stage(active),
    )


def _classes(apart) -> np.ndarray:
    """int32 [CODE_POINTS]: order of marks; 0 = no mark."""
    marks = []
    for _, chars in code_pages():
        for form in (lambda c: c + _LOW, lambda c: _HIGH + c):
            text = [_MARKER + form(c) for c in chars]
            if apart("".join(text)) != "".join(text):
                marks += [
                    c
                    for c in chars
                    if apart(c) == c and apart(form(c)) != form(c)
                ]
    marks = sorted({*marks, _LOW, _HIGH})
    # One mark of each class; a mark comes behind those of lower classes.
    kinds = {unicodedata.combining(c): c for c in marks}.values()
    dense = np.zeros(CODE_POINTS, np.int32)
    for mark in marks:
        lower = [k for k in kinds if apart(mark + k) != mark + k]
        dense[ord(mark)] = 1 + len(lower)
    return dense


class Composer:
    """Flat code points -> NFKC (`compatible`) or NFC, row by row."""

    def __init__(self, compatible: bool = False):
        decomposed, classes, keys, composites, active = _tables(compatible)
        self._decompose = graph_text.Rewriting(decomposed)
        self._classes = tuple(map(tf.constant, classes))
        self._keys = tf.constant(keys)
        self._composites = tf.constant(composites)
        # Text without any of these is in this form already.
        self._active = tuple(map(tf.constant, active))

    def __call__(self, flat: Flat) -> Flat:
        """Code points above Unicode's stay, and nothing joins them."""
        active = tf.reduce_any(graph_text.lookup(self._active, flat.points) > 0)
        fields = tf.cond(
            active,
            lambda: tuple(self._compose(flat))[:4],
            lambda: tuple(flat)[:4],
        )
        return Flat(*fields, flat.count)

    def _compose(self, flat: Flat) -> Flat:
        position = tf.range(tf.size(flat.points))
        apart = self._decompose(flat._replace(starts=position))
        same = tf.equal(apart.rows[1:], apart.rows[:-1])
        same &= tf.equal(apart.starts[1:], apart.starts[:-1])
        # How many characters more than one each stands for, negative: fewer.
        more = tf.cast(tf.concat([[False], same], 0), tf.int32)
        more = more[: tf.size(apart.points)]
        kind = graph_text.lookup(self._classes, apart.points)
        order = self._order(kind, apart.rows)
        points, kind, more = (
            tf.gather(x, order) for x in (apart.points, kind, more)
        )
        state = points, apart.rows, kind, more, tf.zeros_like(kind, tf.bool)
        vector = tf.TensorShape([None])
        points, rows, _, more, _ = tf.while_loop(
            lambda go, *_: go,
            lambda _, *state: self._round(*state),
            (True, *state),
            (tf.TensorShape([]), *[vector] * 5),
        )[1:]
        consumed = tf.cumsum(1 - more, exclusive=True)
        source = consumed - tf.cast(more > 0, tf.int32)
        starts, ends = (tf.gather(x, source) for x in (flat.starts, flat.ends))
        return Flat(points, rows, starts, ends, flat.count)

    @staticmethod
    def _order(kind: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        """Places of marks behind one letter, by their classes."""
        wrong = (kind[1:] > 0) & (kind[:-1] > kind[1:])

        def sort():
            run = tf.cumsum(tf.cast(tf.equal(kind, 0), tf.int64))
            run += tf.cast(rows, tf.int64)  # a row may begin with a mark
            key = run * PAGE + tf.cast(kind, tf.int64)
            return tf.argsort(key, stable=True)

        return tf.cond(
            tf.reduce_any(wrong), sort, lambda: tf.range(tf.size(kind))
        )

    def _round(self, points, rows, kind, more, passed):
        """The first mark that joins each letter does."""
        position = tf.range(tf.size(points))
        letters = tf.concat(
            [[-1], tf.cast(tf.where(tf.equal(kind, 0))[:, 0], tf.int32)], 0
        )
        letter = tf.gather(letters, tf.searchsorted(letters, position) - 1)
        at = tf.maximum(letter, 0)
        near = (letter >= 0) & tf.equal(tf.gather(rows, at), rows)
        before = tf.concat([[0], kind], 0)[: tf.size(kind)]
        near &= tf.equal(letter, position - 1) | (before < kind)
        near &= ~passed
        composite = self._pair(tf.gather(points, at), points)
        joins = near & (composite >= 0)
        none = tf.size(points)
        first = tf.math.unsorted_segment_min(
            tf.where(joins, position, none), at, tf.size(points)
        )
        first = tf.minimum(tf.gather(first, at), none)
        joins &= tf.equal(first, position)
        # What stood behind one that joined has not met its letter yet.
        passed |= near & (position < first) & ~tf.gather(joins, at)
        target = tf.boolean_mask(at, joins)[:, tf.newaxis]
        points = tf.tensor_scatter_nd_update(
            points, target, tf.boolean_mask(composite, joins)
        )
        joined = tf.boolean_mask(more, joins) - 1
        joined += tf.gather(more, target[:, 0])
        more = tf.tensor_scatter_nd_update(more, target, joined)
        kept = [
            tf.boolean_mask(x, ~joins)
            for x in (points, rows, kind, more, passed)
        ]
        return tf.reduce_any(joins), *kept

    def _pair(self, first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
        """What two code points become together, else -1."""
        key = tf.cast(first, tf.int64) * _SHIFT + tf.cast(second, tf.int64)
        index, known = graph_text.find(self._keys, key)
        return tf.where(known, tf.gather(self._composites, index), -1)
