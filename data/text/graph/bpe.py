"""Byte-level BPE inside a TensorFlow graph, as the package `tokenizers`.

    code points -> added tokens -> composed form -> words -> bytes -> merges

The split pattern of GPT-2 looks ahead, which TensorFlow's expressions cannot:
the classes of code points and their neighbours tell where a word begins. In all
words at once the pair of the lowest rank is merged until none is left; words
that are one piece are looked up.

Source: Sennrich et al., 2016; Radford et al., 2019.
"""

import functools
import importlib
import types

import numpy as np
import tensorflow as tf

from data.text.graph import added_tokens, graph_text
from data.text.graph.composed import Composer
from data.text.graph.graph_base import RawTokenizer, Spans
from data.text.graph.graph_text import (
    CODE_POINTS,
    Flat,
    ahead,
    behind,
    changes,
    code_pages,
)
from data.text.graph.merging import Merging
from data.text.released import bpe_file
from data.text.released.bpe_file import BpeFile

# How the split pattern sees a code point, and what stands for an added token.
_LETTER, _NUMBER, _OTHER, _WHITE, _TOKEN = range(5)
# Added to a class where Python's `str.isspace` is true, which cuts spans.
_BLANK = 8
_SPACE, _QUOTE = ord(" "), ord("'")
# What the pattern cuts off behind a quote.
_SHORT = ("s", "t", "re", "ve", "m", "ll", "d")


@functools.lru_cache(maxsize=1)
def _classes() -> tuple[np.ndarray, np.ndarray]:
    """Two-stage table of classes, by the package's own expressions."""
    package = importlib.import_module("tokenizers")
    dense = np.full(CODE_POINTS, _OTHER, np.int32)
    for kind, pattern in (
        (_LETTER, r"[^\p{L}]+"),
        (_NUMBER, r"[^\p{N}]+"),
        (_WHITE, r"[^\s]+"),
    ):
        others = package.Regex(pattern)
        split = package.pre_tokenizers.Split(others, "removed")
        for first, chars in code_pages():
            for _, (start, end) in split.pre_tokenize_str(chars):
                dense[first + start : first + end] = kind
    dense[graph_text.white_space()] += _BLANK
    return graph_text.two_stage(dense)


# --- The graph ---------------------------------------------------------------


class GraphBpe(RawTokenizer):
    """Raw UTF-8 strings -> ids, equal to those of the package `tokenizers`.

    Text must be valid UTF-8: TensorFlow raises InvalidArgumentError otherwise.
    """

    def __init__(self, file: BpeFile):
        super().__init__(name="graph_bpe")
        self.vocab_size = len(file.pieces)
        self._prefix_space = file.prefix_space
        with tf.init_scope():
            self._pieces = tf.constant(file.pieces)
            raw, late, self._token_ids = added_tokens.finders(file.tokens)
            # A module would save tuples as objects of their own.
            self._parts = types.SimpleNamespace(
                classes=tuple(map(tf.constant, _classes())),
                raw=raw,
                late=late,
                compose=Composer() if file.compose else None,
            )
            self._byte_ids = tf.constant(file.bytes, tf.int32)
            self._text = tf.constant(bpe_file.texts_of(file))
            self._merge = Merging(file.merges, self.vocab_size)
            self._words = tf.lookup.StaticHashTable(
                tf.lookup.KeyValueTensorInitializer(
                    list(file.words),
                    list(file.words.values()),
                    tf.string,
                    tf.int64,
                ),
                -1,
            )

    def detokenize(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """int32 [B, (pieces)] -> [B] text; added tokens are left out."""
        return tf.strings.reduce_join(tf.gather(self._text, ids), 1)

    def tokenize_with_offsets(self, texts: tf.Tensor) -> Spans:
        """Ids with their spans of raw characters."""
        raw = graph_text.decode(texts)
        flat = self._prepare(raw)
        sizes = graph_text.utf8_sizes(flat.points)
        sizes = tf.where(flat.points >= CODE_POINTS, 1, sizes)
        ids, _, starts = self._merge(*self._bytes(flat, sizes))
        # A piece ends where the next one begins: words leave no gaps.
        ends = tf.concat([starts, [tf.reduce_sum(sizes)]], 0)[1:]
        first, last = graph_text.points_of_bytes(sizes, starts, ends)
        white = graph_text.lookup(self._parts.classes, raw.points) >= _BLANK
        return graph_text.trimmed_rows(raw, white, flat, ids, first, last - 1)

    def _prepare(self, raw: Flat) -> Flat:
        """Code points that the split pattern sees, and added tokens."""
        flat, parts = raw, self._parts
        if parts.raw:
            flat = parts.raw(flat, tf.equal(self._kind(flat), _WHITE))
        if parts.compose:
            flat = parts.compose(flat)
        if parts.late:
            flat = parts.late(flat, tf.equal(self._kind(flat), _WHITE))
        return self._with_space(flat) if self._prefix_space else flat

    def _kind(self, flat: Flat) -> tf.Tensor:
        """int32 [n]: classes of code points."""
        classes = self._parts.classes
        return graph_text.lookup(classes, flat.points, _TOKEN) % _BLANK

    @staticmethod
    def _segments(flat: Flat, kind: tf.Tensor) -> tf.Tensor:
        """bool [n]: a row, an added token or text behind one begins."""
        token = tf.equal(kind, _TOKEN)
        return token | behind(token) | changes(flat.rows)

    def _with_space(self, flat: Flat) -> Flat:
        """A space before text that begins with none."""
        kind = self._kind(flat)
        bare = self._segments(flat, kind) & tf.not_equal(kind, _TOKEN)
        bare &= tf.not_equal(flat.points, _SPACE)
        source, offset = graph_text.expand(1 + tf.cast(bare, tf.int32))
        space = tf.gather(bare, source) & tf.equal(offset, 0)
        points = tf.where(space, _SPACE, tf.gather(flat.points, source))
        return flat.take(source, points)

    def _begins(self, flat: Flat) -> tf.Tensor:
        """bool [n]: code points at which the pattern begins a word."""
        kind = self._kind(flat)
        segment = self._segments(flat, kind)
        white = tf.equal(kind, _WHITE)
        begins = segment | changes(kind)
        # The last white space before a word stands alone, a space joins it.
        last = white & ahead(~segment & ~white, 1)
        begins |= last
        begins &= ~behind(last & tf.equal(flat.points, _SPACE))
        quote = begins & tf.equal(flat.points, _QUOTE)
        for short in _SHORT:
            hit = quote
            for i, char in enumerate(short, 1):
                same = tf.equal(flat.points, ord(char)) & ~segment
                hit &= ahead(same, i)
            begins &= ~behind(hit)
            for _ in range(len(short) + 1):
                hit = behind(hit)
            begins |= hit
        return begins

    def _bytes(self, flat: Flat, sizes: tf.Tensor):
        """(ids, words, first bytes) before merging: bytes and whole words."""
        begins = self._begins(flat)
        word = tf.cumsum(tf.cast(begins, tf.int32)) - 1  # of code points
        token = flat.points >= CODE_POINTS
        known = self._known_words(flat, begins, token)
        whole = tf.gather(known, word) >= 0
        counts = tf.where(whole, tf.cast(begins, tf.int32), sizes)
        source, offset = graph_text.expand(counts)
        starts = tf.gather(tf.cumsum(sizes, exclusive=True), source) + offset
        word = tf.gather(word, source)
        byte = graph_text.byte(
            tf.gather(flat.points, source), tf.gather(sizes, source), offset
        )
        whole = tf.gather(whole, source)
        ids = tf.gather(self._byte_ids, tf.where(whole, 0, byte))
        ids = tf.where(whole, tf.gather(known, word), ids)
        return ids, word, starts

    def _known_words(self, flat, begins, token) -> tf.Tensor:
        """int32 [words]: ids of words that are one piece, else -1."""
        starts = tf.where(begins)[:, 0]
        end = tf.size(flat.points, out_type=tf.int64)
        points = tf.RaggedTensor.from_row_splits(
            tf.where(token, 0, flat.points),
            tf.concat([starts, [end]], 0),
            validate=False,
        )
        text = tf.strings.unicode_encode(points, "UTF-8", errors="strict")
        known = tf.cast(self._words.lookup(text), tf.int32)
        first = tf.gather(flat.points, starts)
        number = tf.where(tf.gather(token, starts), first - CODE_POINTS, 0)
        return tf.where(
            tf.gather(token, starts), tf.gather(self._token_ids, number), known
        )


# What `opening` asks for.
Graph, parse = GraphBpe, bpe_file.parse
