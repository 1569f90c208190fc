"""Merges of byte pairs inside a TensorFlow graph.

In all words at once the pair of the lowest rank is merged until none is left.

Source: Sennrich et al., 2016, "Neural Machine Translation of Rare Words with
Subword Units".
"""

import tensorflow as tf

from data.text.graph import graph_text
from data.text.released.bpe_file import Merges

_NONE = 1 << 62  # the rank of two pieces that never merge


class Merging(tf.Module):
    """Pieces of words -> the pieces that merges make of them.

    Args:
      merges: pairs by ids in 0..V-1.
      vocab_size: V.
    """

    def __init__(self, merges: Merges, vocab_size: int):
        super().__init__(name="merging")
        self._vocab_size = vocab_size
        self._one_at_a_time = merges.one_at_a_time
        keys = [left * vocab_size + right for left, right, _ in merges.rows]
        values = [
            rank * vocab_size + new
            for rank, (_, _, new) in enumerate(merges.rows)
        ]
        # A table may not be empty.
        self._merges = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(
                [*keys, -1], [*values, _NONE], tf.int64, tf.int64
            ),
            _NONE,
        )

    def __call__(self, ids: tf.Tensor, word: tf.Tensor, starts: tf.Tensor):
        """(ids, words, starts) of the pieces; each an int32 vector.

        Args:
          ids: int32 [n], of the first pieces.
          word: int32 [n], the word of each, ascending.
          starts: int32 [n], where each begins.
        """
        vector = tf.TensorShape([None])
        rank = self._rank(ids, word, tf.range(tf.size(ids)))
        return tf.while_loop(
            lambda _, __, ___, rank: tf.reduce_any(rank < _NONE),
            self._merge_once,
            (ids, word, starts, rank),
            (vector,) * 4,
        )[:3]

    def _merge_once(self, ids, word, starts, rank):
        """In each word the pair of the lowest rank, wherever it stands."""
        at = tf.range(tf.size(ids))
        words = tf.reduce_max(word) + 1
        best = tf.math.unsorted_segment_min(rank, word, words)
        hit = (rank < _NONE) & tf.equal(rank, tf.gather(best, word))
        if self._one_at_a_time:
            first = tf.where(hit, at, tf.size(ids))
            first = tf.math.unsorted_segment_min(first, word, words)
            hit &= tf.equal(at, tf.gather(first, word))
        else:
            # Of pairs that overlap, `a a a`, every other one from the left.
            run = tf.where(hit & ~graph_text.behind(hit))[:, 0]
            run = tf.concat([[0], tf.cast(run, tf.int32)], 0)
            start = tf.searchsorted(run[1:], at, side="right")
            hit &= tf.equal((at - tf.gather(run, start)) % 2, 0)
        new = tf.cast(rank % self._vocab_size, tf.int32)
        ids = tf.where(hit, new, ids)
        keep = tf.cast(tf.where(~graph_text.behind(hit))[:, 0], tf.int32)
        ids, word, starts, rank, hit = (
            tf.gather(x, keep) for x in (ids, word, starts, rank, hit)
        )
        changed = tf.where(hit | graph_text.ahead(hit, 1))
        fresh = self._rank(ids, word, tf.cast(changed[:, 0], tf.int32))
        rank = tf.tensor_scatter_nd_update(rank, changed, fresh)
        return ids, word, starts, rank

    def _rank(self, ids, word, at) -> tf.Tensor:
        """int64: rank and new id of the pairs that begin at some pieces."""
        after = tf.minimum(at + 1, tf.size(ids) - 1)
        same = tf.equal(tf.gather(word, at), tf.gather(word, after))
        same &= at < after
        left, right = (
            tf.cast(tf.gather(ids, x), tf.int64) for x in (at, after)
        )
        rank = self._merges.lookup(left * self._vocab_size + right)
        return tf.where(same, rank, _NONE)
