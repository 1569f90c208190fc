"""Text normalisation inside a TensorFlow graph.

White space, quotes, NFKD, accents and case by code-point tables that Python's
own string methods fill. TensorFlow's text ops are not used because they differ
from Python: `tf.strings.lower` cuts at NUL and knows other code points,
`tensorflow_text`'s NFKD is of a newer Unicode, RE2's classes differ too.

Text travels as one flat list of code points with the row and the raw position
of each (`Flat`), so that every later position leads back to the raw text.
"""

import functools
import unicodedata
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from common.vocabularies.text_settings import TextSettings
from data.text import normalization

CODE_POINTS = 0x110000
SURROGATES = range(0xD800, 0xE000)
PAGE = 256  # code points per page of the two-stage tables
_SPACE, _SIGMA, _FINAL_SIGMA, _SMALL_SIGMA = 0x20, 0x3A3, 0x3C2, 0x3C3

# Classes of the final-sigma rule; 0 = neither.
_CASED, _IGNORABLE = 1, 2


# --- Tables, made once per process by Python's own string methods ------------


def _rewrite(char: str, options: TextSettings) -> str:
    """What one character becomes; capital sigma is left for the context."""
    if not options.keep_accents:
        char = "".join(
            c
            for c in unicodedata.normalize("NFKD", char)
            if not unicodedata.combining(c)
        )
    if options.uncased:
        char = "".join(c if ord(c) == _SIGMA else c.lower() for c in char)
    return char


def code_pages() -> Iterator[tuple[int, str]]:
    """(first code point, characters) of every page, without surrogates."""
    for first in range(0, CODE_POINTS, PAGE):
        if first not in SURROGATES:
            yield first, "".join(map(chr, range(first, first + PAGE)))


def _all_stay(chars: str, options: TextSettings) -> bool:
    """Whether `_rewrite` changes none of these characters; else maybe none."""
    if not options.keep_accents and (
        unicodedata.normalize("NFKD", chars) != chars
        or any(map(unicodedata.combining, chars))
    ):
        return False
    return not options.uncased or chars.lower() == chars


def two_stage(dense: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Splits a [CODE_POINTS] table into page numbers and distinct pages."""
    pages = dense.reshape(-1, PAGE)
    distinct, index = np.unique(pages, axis=0, return_inverse=True)
    return index.reshape(-1).astype(np.int32), distinct.astype(np.int32)


def rewrite_tables(rewritten: Mapping[int, str]) -> tuple[np.ndarray, ...]:
    """Entry number of every code point, and the entries' code points.

    page index, pages, entry starts [E], entry lengths [E], code points; for
    `Rewriting`. What `rewritten` lacks has entry 0, "stays as it is".
    """
    dense = np.zeros(CODE_POINTS, np.int32)
    starts, lengths, values = [0], [1], [0]
    for point, new in rewritten.items():
        dense[point] = len(starts)
        starts.append(len(values))
        lengths.append(len(new))
        values.extend(map(ord, new))
    as_int = functools.partial(np.asarray, dtype=np.int32)
    return (*two_stage(dense), as_int(starts), as_int(lengths), as_int(values))


@functools.lru_cache(maxsize=8)
def _option_tables(options: TextSettings) -> tuple[np.ndarray, ...]:
    """`rewrite_tables` of text settings."""
    return rewrite_tables(
        {
            ord(char): new
            for _, chars in code_pages()
            if not _all_stay(chars, options)  # of 4,352 pages about 4,200
            for char in chars
            if (new := _rewrite(char, options)) != char
        }
    )


@functools.lru_cache(maxsize=1)
def _sigma_tables() -> tuple[np.ndarray, np.ndarray]:
    dense = np.zeros(CODE_POINTS, np.int32)
    cased, ignorable = normalization.sigma_classes()
    dense[cased], dense[ignorable] = _CASED, _IGNORABLE
    return two_stage(dense)


@functools.lru_cache(maxsize=1)
def white_space() -> np.ndarray:
    """Code points that `str.split` and `str.strip` drop, sorted."""
    return np.asarray(
        [p for p in range(CODE_POINTS) if chr(p).isspace()], np.int32
    )


# --- The graph ---------------------------------------------------------------


def lookup(
    pages: tuple[tf.Tensor, tf.Tensor], points: tf.Tensor, beyond: int = 0
) -> tf.Tensor:
    """int32 [n]: what a table of `two_stage` says of code points [n].

    Those above Unicode's have `beyond`.
    """
    index, table = pages
    above = points >= CODE_POINTS
    points = tf.where(above, 0, points)
    values = tf.gather_nd(
        table,
        tf.stack([tf.gather(index, points // PAGE), points % PAGE], axis=-1),
    )
    return tf.where(above, beyond, values)


def find(known: tf.Tensor, wanted: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Places int32 [n] of `wanted` in `known`, and whether they are there.

    `known` ascends and is not empty.
    """
    at = tf.minimum(tf.searchsorted(known, wanted), tf.size(known) - 1)
    return at, tf.equal(tf.gather(known, at), wanted)


def expand(lengths: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """For [n] output lengths: the source and the offset of every output."""
    source = tf.repeat(tf.range(tf.size(lengths)), lengths)
    starts = tf.cumsum(lengths, exclusive=True)
    return source, tf.range(tf.size(source)) - tf.gather(starts, source)


class Flat(NamedTuple):
    """Rows of code points, laid end to end, with their raw positions."""

    points: tf.Tensor  # int32 [n] code points
    rows: tf.Tensor  # int32 [n] row numbers, not decreasing
    # int32 [n] the raw characters that each one came from; a dropped combining
    # mark belongs to the character before it
    starts: tf.Tensor
    ends: tf.Tensor
    count: tf.Tensor  # int32 [] number of rows

    def take(self, source: tf.Tensor, points: tf.Tensor) -> "Flat":
        """New code points, each with the span of its source."""
        rows, starts, ends = (
            tf.gather(x, source) for x in (self.rows, self.starts, self.ends)
        )
        return Flat(points, rows, starts, ends, self.count)

    def lengths(self) -> tf.Tensor:
        """int32 [rows]."""
        return tf.math.bincount(
            self.rows, minlength=self.count, maxlength=self.count
        )


def decode(texts: tf.Tensor) -> Flat:
    """[B] raw UTF-8 -> code points; other bytes raise InvalidArgumentError."""
    points = tf.strings.unicode_decode(texts, "UTF-8", errors="strict")
    lengths = tf.cast(points.row_lengths(), tf.int32)
    rows, raw = expand(lengths)
    return Flat(points.values, rows, raw, raw + 1, tf.size(lengths))


class Rewriting:
    """Code points -> what each becomes by itself: none, one or several."""

    def __init__(self, tables: tuple[np.ndarray, ...]):
        index, pages, *entries = [tf.constant(t) for t in tables]
        self._pages = index, pages
        self._starts, self._lengths, self._values = entries

    def __call__(self, flat: Flat, widen: bool = False) -> Flat:
        """Rewrites all code points; those above Unicode's stay.

        `widen`: what becomes nothing belongs to the code point before it.
        """
        entry = lookup(self._pages, flat.points)
        lengths = tf.gather(self._lengths, entry)
        if widen:
            flat = _widen(flat, lengths)
        source, offset = expand(lengths)
        entry = tf.gather(entry, source)
        changed = tf.gather(
            self._values, tf.gather(self._starts, entry) + offset
        )
        kept = tf.gather(flat.points, source)
        return flat.take(source, tf.where(tf.equal(entry, 0), kept, changed))


def _widen(flat: Flat, lengths: tf.Tensor) -> Flat:
    """Ends after the characters of no length that follow each one."""
    count = tf.size(lengths)
    kept = tf.cast(tf.where(lengths > 0)[:, 0], tf.int32)
    following = tf.searchsorted(kept, tf.range(count), side="right")
    next_kept = tf.gather(tf.concat([kept, [count]], 0), following)
    row_ends = tf.gather(tf.cumsum(flat.lengths()), flat.rows)
    last = tf.minimum(next_kept, row_ends) - 1
    return flat._replace(ends=tf.gather(flat.ends, last))


class GraphNormalizer:
    """Raw UTF-8 strings -> normalised code points.

    The tables are constants, made eagerly: a function that uses this object can
    be exported and then needs no Python.
    """

    def __init__(self, options: TextSettings):
        self.options = options
        self._rewriting = Rewriting(_option_tables(options))
        self._sigma_pages = tuple(map(tf.constant, _sigma_tables()))
        self._white = tf.constant(white_space())

    def _collapse_space(self, flat: Flat) -> Flat:
        """`" ".join(text.split())`."""
        white = self.is_white(flat.points)
        # A run of white space becomes one space if text stands before and
        # after it in the row: keep the last of the run, then strip the rows.
        same = tf.equal(flat.rows[1:], flat.rows[:-1])
        next_white = tf.concat([white[1:] & same, [False]], 0)
        text_at = tf.cast(tf.where(~white)[:, 0], tf.int32)
        position = tf.range(tf.size(flat.points))
        after = tf.searchsorted(text_at, position, side="left")
        before = after - 1
        has_text = self._same_row(flat, text_at, before, flat.rows)
        has_text &= self._same_row(flat, text_at, after, flat.rows)
        keep = tf.where(white, has_text & ~next_white, True)
        source = tf.cast(tf.where(keep)[:, 0], tf.int32)
        points = tf.where(white, _SPACE, flat.points)
        return flat.take(source, tf.gather(points, source))

    @staticmethod
    def _same_row(flat, places, index, rows) -> tf.Tensor:
        """Whether `places[index]` exists and lies in the row `rows`."""
        count = tf.size(places)
        valid = (index >= 0) & (index < count)
        padded = tf.concat([places, [0]], 0)
        row_at = tf.gather(padded, tf.where(valid, index, count))
        rows_padded = tf.concat([flat.rows, [-1]], 0)
        return valid & tf.equal(tf.gather(rows_padded, row_at), rows)

    def is_white(self, points: tf.Tensor) -> tf.Tensor:
        """bool [n]: code points that `str.split` drops."""
        return find(self._white, points)[1]

    def _quotes(self, flat: Flat, quote: str) -> Flat:
        """Two `quote` in a row become one double quote, from the left."""
        hit = tf.equal(flat.points, ord(quote))
        same = tf.equal(flat.rows[1:], flat.rows[:-1])
        begins = hit & ~tf.concat([[False], hit[:-1] & same], 0)
        position = tf.range(tf.size(hit))
        starts = tf.cast(tf.where(begins)[:, 0], tf.int32)
        run = tf.searchsorted(starts, position, side="right") - 1
        start = tf.gather(tf.concat([starts, [0]], 0), tf.maximum(run, 0))
        odd = hit & tf.equal((position - start) % 2, 1)
        next_odd = tf.concat([odd[1:] & same, [False]], 0)
        pair = next_odd & hit
        points = tf.where(pair, ord('"'), flat.points)
        ends = tf.where(pair, flat.ends + 1, flat.ends)
        flat = flat._replace(ends=ends)
        source = tf.cast(tf.where(~odd)[:, 0], tf.int32)
        return flat.take(source, tf.gather(points, source))

    def _lower_sigma(self, flat: Flat) -> Flat:
        """Capital sigma: the final form after, and not before, a cased one."""
        kind = lookup(self._sigma_pages, flat.points)
        solid = tf.cast(tf.where(kind != _IGNORABLE)[:, 0], tf.int32)
        cased = tf.concat([tf.equal(kind, _CASED), [False]], 0)
        position = tf.range(tf.size(kind))
        near = {}
        for name, index in (
            ("before", tf.searchsorted(solid, position, side="left") - 1),
            ("after", tf.searchsorted(solid, position, side="right")),
        ):
            there = self._same_row(flat, solid, index, flat.rows)
            at = tf.gather(tf.concat([solid, [0]], 0), tf.maximum(index, 0))
            near[name] = there & tf.gather(cased, at)
        final = near["before"] & ~near["after"]
        lowered = tf.where(final, _FINAL_SIGMA, _SMALL_SIGMA)
        is_sigma = tf.equal(flat.points, _SIGMA)
        points = tf.where(is_sigma, lowered, flat.points)
        return flat._replace(points=points)

    def __call__(self, texts: tf.Tensor) -> Flat:
        """[B] raw UTF-8 -> the rows' code points after normalisation."""
        flat = decode(texts)
        if self.options.remove_space:
            flat = self._collapse_space(flat)
        flat = self._quotes(self._quotes(flat, "`"), "'")
        if not self.options.keep_accents or self.options.uncased:
            flat = self._rewriting(flat, widen=True)
        if self.options.uncased:
            flat = self._lower_sigma(flat)
        return flat


def points_of_bytes(
    sizes: tf.Tensor, start: tf.Tensor, end: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Spans of bytes -> the spans of code points that they touch.

    int32 [m] first code point of each span, and one past its last. `sizes`
    int32 [n] are the bytes of each code point (`utf8_sizes`); `start` and
    `end`, int32 [m], are bytes of the text of all code points.
    """
    begins = tf.cumsum(sizes, exclusive=True)  # [n] bytes before each
    first = tf.searchsorted(begins, start, side="right") - 1
    return tf.maximum(first, 0), tf.searchsorted(begins, end, side="left")


# UTF-8 takes one byte more from each of these on.
_UTF8_LIMITS = (0x80, 0x800, 0x10000)


def utf8_sizes(points: tf.Tensor) -> tf.Tensor:
    """int32 [n] bytes that each code point takes in UTF-8."""
    sizes = [tf.cast(points >= limit, tf.int32) for limit in _UTF8_LIMITS]
    return 1 + tf.add_n(sizes)


def encode(flat: Flat) -> tf.Tensor:
    """[rows] UTF-8 strings."""
    return tf.strings.unicode_encode(
        tf.RaggedTensor.from_row_lengths(
            flat.points, flat.lengths(), validate=False
        ),
        "UTF-8",
        errors="strict",
    )


def byte(point: tf.Tensor, size: tf.Tensor, offset: tf.Tensor) -> tf.Tensor:
    """int32 [n]: the byte at an offset in the UTF-8 of code points."""
    high = point // tf.gather([1, 1 << 6, 1 << 12, 1 << 18], size - 1 - offset)
    lead = tf.gather([0, 0xC0, 0xE0, 0xF0], size - 1)
    return tf.where(tf.equal(offset, 0), high + lead, 0x80 + high % 64)


def behind(flags: tf.Tensor) -> tf.Tensor:
    """bool [n]: what holds for the one before each."""
    return tf.concat([[False], flags], 0)[: tf.size(flags)]


def ahead(values: tf.Tensor, distance: int) -> tf.Tensor:
    """[n]: the value so far behind each; at the end 0 or False."""
    none = tf.zeros([distance], values.dtype)
    return tf.concat([values, none], 0)[distance:]


def changes(values: tf.Tensor) -> tf.Tensor:
    """bool [n]: the first one, and those that differ from the one before."""
    new = tf.not_equal(values[1:], values[:-1])
    return tf.concat([[True], new], 0)[: tf.size(values)]


def trimmed_rows(
    raw: Flat,
    white: tf.Tensor,
    flat: Flat,
    ids: tf.Tensor,
    first: tf.Tensor,
    last: tf.Tensor,
) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
    """Ids and spans of pieces by row, without white space at their edges.

    Args:
      white: bool, which code points of `raw` are white space.
      flat: what the pieces, `ids` int32 [m], were cut from.
      first, last: int32 [m], first and last code point of each in `flat`.
    """
    rows = tf.gather(flat.rows, first)
    base = tf.gather(tf.cumsum(raw.lengths(), exclusive=True), rows)
    start = tf.gather(flat.starts, first) + base
    end = tf.gather(flat.ends, last) + base
    solid = tf.cast(tf.where(~white)[:, 0], tf.int32)
    after = tf.gather(
        tf.concat([solid, [tf.size(white)]], 0), tf.searchsorted(solid, start)
    )
    start = tf.minimum(after, end)
    before = tf.gather(tf.concat([[-1], solid], 0), tf.searchsorted(solid, end))
    end = tf.maximum(before + 1, start)
    ones = tf.ones_like(rows, tf.int64)  # as SentencePiece's rows are counted
    counts = tf.math.unsorted_segment_sum(ones, rows, flat.count)
    return tuple(
        tf.RaggedTensor.from_row_lengths(v, counts, validate=False)
        for v in (ids, start - base, end - base)
    )
