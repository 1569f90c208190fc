"""Text as a stream: words of many pieces, and the other direction."""

import numpy as np

from data.pretraining.sampling.token_stream import Stream, split_long_words


def test_long_words_count_as_single_pieces():
    words = np.zeros(30, bool)
    words[[0, 9, 12, 20]] = True  # of 9, 3, 8 and 10 pieces
    found = split_long_words(words)
    assert found[:9].all() and found[20:].all()
    assert np.flatnonzero(found[9:20]).tolist() == [0, 3]


def test_a_reversed_stream_keeps_its_words():
    words = np.asarray([1, 0, 1, 1, 0, 0, 1], bool)
    stream = Stream(np.arange(7), np.asarray([0, 3]), np.asarray([0, 6]), words)
    back = stream.reversed()
    assert back.ids.tolist() == [6, 5, 4, 3, 2, 1, 0]
    assert np.flatnonzero(back.words).tolist() == [0, 1, 4, 5]
    assert back.sentences.tolist() == [0, 4]
    assert back.documents.tolist() == [0, 1]
    again = back.reversed()
    assert (again.words == words).all()
    assert again.sentences.tolist() == [0, 3]
