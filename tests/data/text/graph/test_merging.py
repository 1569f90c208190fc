"""Merges of pairs in a graph."""

import tensorflow as tf

from data.text.graph.merging import Merging
from data.text.released.bpe_file import Merges


def _merged(merges, ids, words):
    found = Merging(merges, 9)(
        tf.constant(ids), tf.constant(words), tf.range(len(ids))
    )
    return [x.numpy().tolist() for x in found]


def test_the_lowest_rank_is_merged_first_and_no_word_is_crossed():
    merges = Merges([(1, 2, 5), (0, 1, 4), (5, 3, 6)], False)
    ids, words, starts = _merged(merges, [0, 1, 2, 3, 0, 1], [0, 0, 0, 0, 0, 1])
    assert ids == [0, 6, 0, 1] and words == [0, 0, 0, 1]
    assert starts == [0, 1, 4, 5]


def test_of_a_run_every_other_pair_from_the_left():
    merges = Merges([(0, 0, 4)], False)
    assert _merged(merges, [0, 0, 0, 1, 0, 0], [0] * 6)[0] == [4, 0, 1, 4]


def test_a_late_piece_may_be_what_an_early_merge_waits_for():
    """`00` is made last, and `00 1` is merged before the next `00`."""
    merges = Merges([(4, 1, 5), (0, 0, 4)], True)
    assert _merged(merges, [0, 0, 1, 0, 0], [0] * 5)[0] == [5, 4]
    together = Merges(merges.rows, False)
    assert _merged(together, [0, 0, 1, 0, 0], [0] * 5)[0] == [5, 4]
    merges = Merges([(1, 4, 6), (4, 1, 5), (0, 0, 4)], True)
    assert _merged(merges, [0, 0, 1, 0, 0], [0] * 5)[0] == [5, 4]
    together = Merges(merges.rows, False)
    assert _merged(together, [0, 0, 1, 0, 0], [0] * 5)[0] == [4, 6]


def test_no_pieces_and_no_merges():
    assert _merged(Merges([], False), [2, 1], [0, 0])[0] == [2, 1]
    empty = tf.zeros([0], tf.int32)
    found = Merging(Merges([(0, 0, 1)], False), 9)(empty, empty, empty)
    assert [x.shape[0] for x in found] == [0, 0, 0]
