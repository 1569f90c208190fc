"""Unigram inside a TensorFlow graph, equal to the package `tokenizers`.

The best pieces of all words are found at once: all pieces that begin at each
code point, then the best way to each end from the left (Viterbi), by 64 bit as
the package does; of equal ways the one whose last piece begins first. A place
that no piece crosses divides the work: between two such places the ways are
independent.

Source: Kudo, 2018, "Subword Regularization", section 3.2.
"""

import numpy as np
import tensorflow as tf

from data.text.graph import added_tokens
from data.text.graph.added_tokens import Trie
from data.text.graph.graph_text import CODE_POINTS, Flat
from data.text.graph.marked import GraphMarked
from data.text.released import unigram_file

_NEVER = -np.inf


class GraphUnigram(GraphMarked):
    """Raw UTF-8 strings -> ids, equal to those of the package `tokenizers`."""

    def __init__(self, file: unigram_file.UnigramFile):
        super().__init__(file.marked, "graph_unigram")
        rows = list(file.scores.values())
        scores = np.asarray([score for _, score in rows], np.float64)
        # Sums of such numbers are exact, in any order.
        self._exact = bool((scores == scores.astype(np.float32)).all())
        with tf.init_scope():
            self._ids = tf.constant([number for number, _ in rows], tf.int32)
            self._scores = tf.constant(scores)
            self._unknown_score = tf.constant(file.unknown_score, tf.float64)
            self._parts.trie = Trie(list(file.scores))
        self._longest = max(map(len, file.scores))

    def _best(self, flat: Flat, word, begins):
        count = tf.size(flat.points)
        scores, piece = self._matches(flat, word)
        starts = tf.where(self._divided(piece, begins))[:, 0]
        starts = tf.cast(starts, tf.int32)
        size = self._sizes(tf.reshape(scores, [-1]), starts, count)
        # From the last place to the one before its piece; 0 is the end.
        before = tf.concat([[0], tf.range(1, count + 1) - size], 0)
        taken = added_tokens.follow(before, count)[1:]
        last = tf.cast(tf.where(taken)[:, 0], tf.int32)
        size = tf.gather(size, last)
        first = last - size + 1
        number = tf.gather(tf.reshape(piece, [-1]), (size - 1) * count + first)
        ids = tf.where(
            number < 0,
            self._rules.unknown,
            tf.gather(self._ids, tf.maximum(number, 0)),
        )
        return ids, first, last

    def _matches(self, flat: Flat, word):
        """(scores [L, n] float64, pieces [L, n]) of 1 to L code points."""
        count = tf.size(flat.points)
        points = tf.concat([flat.points, [CODE_POINTS]], 0)
        words = tf.concat([word, [-1]], 0)
        trie = self._parts.trie

        def step(offset, at, state, out):
            position = tf.minimum(at + offset, count)
            state = trie.next(state, tf.gather(points, position))
            live = (state >= 0) & tf.equal(
                tf.gather(words, position), tf.gather(words, at)
            )
            at, state = (tf.boolean_mask(x, live) for x in (at, state))
            piece = tf.tensor_scatter_nd_update(
                tf.fill([count], -1),
                at[:, tf.newaxis],
                tf.gather(trie.ends, state),
            )
            return offset + 1, at, state, out.write(offset, piece)

        out = tf.TensorArray(
            tf.int32, self._longest, element_shape=tf.TensorShape([None])
        )
        vector = tf.TensorShape([None])
        out = tf.while_loop(
            lambda offset, *_: offset < self._longest,
            step,
            (0, tf.range(count), tf.zeros_like(flat.points), out),
            (tf.TensorShape([]), vector, vector, tf.TensorShape(None)),
        )[-1]
        piece = out.stack()
        scores = tf.where(
            piece < 0,
            tf.constant(_NEVER, tf.float64),
            tf.gather(self._scores, tf.maximum(piece, 0)),
        )
        alone = tf.where(piece[:1] < 0, self._unknown_score, scores[:1])
        return tf.concat([alone, scores[1:]], 0), piece

    def _divided(self, piece: tf.Tensor, begins: tf.Tensor) -> tf.Tensor:
        """bool [n]: where a word begins, or no piece lies across."""
        if not self._exact:
            return begins
        count = tf.size(begins)
        size = tf.range(1, self._longest + 1)[:, tf.newaxis]
        longest = tf.reduce_max(tf.where(piece < 0, 1, size), 0)  # [n]
        at = tf.range(count)
        across = tf.math.unsorted_segment_sum(
            tf.repeat([1, -1], count),
            tf.concat([at + 1, at + longest], 0),
            count + 1,
        )
        return begins | tf.equal(tf.cumsum(across)[:-1], 0)

    def _sizes(self, scores, starts, count) -> tf.Tensor:
        """int32 [n]: of the best way to each end the size of the last piece."""
        lengths = tf.concat([starts, [count]], 0)[1:] - starts
        sizes = tf.range(self._longest, 0, -1)  # the first to begin wins

        def step(position, best, size):
            live = tf.boolean_mask(starts, lengths > position)
            at = live + position
            start = at[:, tf.newaxis] - sizes + 1  # [A, L]
            fits = start >= live[:, tf.newaxis]
            start = tf.maximum(start, live[:, tf.newaxis])
            before = tf.where(
                start > live[:, tf.newaxis],
                tf.gather(best, tf.maximum(start - 1, 0)),
                tf.constant(0, tf.float64),
            )
            way = before + tf.gather(scores, (sizes - 1) * count + start)
            way = tf.where(fits, way, tf.constant(_NEVER, tf.float64))
            top = tf.reduce_max(way, 1, keepdims=True)
            chosen = tf.reduce_max(tf.where(tf.equal(way, top), sizes, 0), 1)
            at = at[:, tf.newaxis]
            return (
                position + 1,
                tf.tensor_scatter_nd_update(best, at, top[:, 0]),
                tf.tensor_scatter_nd_update(size, at, chosen),
            )

        steps = tf.reduce_max(tf.concat([[0], lengths], 0))
        vector = tf.TensorShape([None])
        return tf.while_loop(
            lambda position, *_: position < steps,
            step,
            (0, tf.zeros([count], tf.float64), tf.ones([count], tf.int32)),
            (tf.TensorShape([]), vector, vector),
        )[-1]


# What `opening` asks for.
Graph, parse = GraphUnigram, unigram_file.parse
