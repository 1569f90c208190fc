"""What the tokenizers in a graph share: ids alone, and their pieces."""

import pytest
import tensorflow as tf

from data.text.graph.graph_base import RawTokenizer


class Words(RawTokenizer):
    """Every word is the piece of its length."""

    def __init__(self):
        super().__init__()
        self._pieces = tf.constant(["none", "one", "two", "three"])

    def tokenize_with_offsets(self, texts):
        words = tf.strings.split(texts)
        sizes = tf.ragged.map_flat_values(tf.strings.length, words)
        return sizes, sizes * 0, sizes


def test_ids_are_the_first_of_the_spans():
    ids = Words().tokenize(tf.constant(["a bcd", "", "ef"]))
    assert ids.to_list() == [[1, 3], [], [2]]
    pieces = Words().id_to_piece(ids)
    assert pieces.to_list() == [[b"one", b"three"], [], [b"two"]]


def test_a_tokenizer_has_spans_of_its_own():
    with pytest.raises(NotImplementedError):
        RawTokenizer().tokenize(tf.constant(["a"]))
