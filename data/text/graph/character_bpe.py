"""BPE by characters inside a TensorFlow graph, as the package `tokenizers`.

A text is one word or few, so that merging it step by step would take as many
steps as it has characters. Two characters that stand side by side in no piece
divide it: no merge crosses such a place, and all parts are merged at once.

Source: Sennrich et al., 2016; Kudo and Richardson, 2018, "SentencePiece".
"""

import numpy as np
import tensorflow as tf

from data.text.graph import graph_text
from data.text.graph.graph_text import CODE_POINTS, Flat
from data.text.graph.marked import GraphMarked
from data.text.graph.merging import Merging
from data.text.released import character_bpe_file

_UNKNOWN = -1


class GraphCharacterBpe(GraphMarked):
    """Raw UTF-8 strings -> ids, equal to those of the package `tokenizers`."""

    def __init__(self, file: character_bpe_file.CharacterBpeFile):
        super().__init__(file.marked, "graph_character_bpe")
        ids = np.full(CODE_POINTS, _UNKNOWN, np.int32)
        for character, number in file.characters.items():
            ids[ord(character)] = number
        pairs = sorted(
            ord(a) * CODE_POINTS + ord(b) for a, b in file.neighbours
        )
        with tf.init_scope():
            self._characters = tuple(
                map(tf.constant, graph_text.two_stage(ids))
            )
            # One that no text has, for files without merges.
            self._neighbours = tf.constant([*pairs, CODE_POINTS**2], tf.int64)
            self._merge = Merging(file.merges, self.vocab_size)

    def _best(self, flat: Flat, word, begins):
        points = flat.points
        ids = graph_text.lookup(self._characters, points, _UNKNOWN)
        alone = tf.equal(ids, _UNKNOWN)
        ids = tf.where(alone, self._rules.unknown, ids)
        begins |= alone | graph_text.behind(alone) | self._divided(points)
        part = tf.cumsum(tf.cast(begins, tf.int32)) - 1
        count = tf.size(points)
        ids, _, first = self._merge(ids, part, tf.range(count))
        last = tf.concat([first, [count]], 0)[1:] - 1
        return ids, first, last

    def _divided(self, points: tf.Tensor) -> tf.Tensor:
        """bool [n]: code points that no merge joins to the one before."""
        points = tf.cast(points, tf.int64)
        before = tf.concat([[0], points], 0)[: tf.size(points)]
        pairs = before * CODE_POINTS + points
        return ~graph_text.find(self._neighbours, pairs)[1]


# What `opening` asks for.
Graph, parse = GraphCharacterBpe, character_bpe_file.parse
