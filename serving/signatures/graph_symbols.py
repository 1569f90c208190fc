"""Bytes, characters and words of a vocabulary inside a graph.

A text is one line: what a vocabulary puts before a line comes first, so that
the first symbol is predicted from something.
"""

import tensorflow as tf

from data.text.vocabulary import SymbolVocabulary, Vocabulary

# What Python's `str.split` divides words at.
_SPACE = r"[\s\x{1c}-\x{1f}\x{85}\p{Z}]+"


def can_tokenize(vocabulary: Vocabulary) -> bool:
    """Whether a graph gives exactly the ids of `Vocabulary.encode`.

    Lower-casing differs on some characters, and SentencePiece files have a way
    of their own.
    """
    return (
        isinstance(vocabulary, SymbolVocabulary)
        and not vocabulary.lower_case
        and vocabulary.line_end != "marks"
        and (vocabulary.unit == "byte" or vocabulary.unk_id is not None)
    )


class GraphSymbols(tf.Module):
    """Texts -> ids and back.

    Args:
      vocabulary: for which `can_tokenize` holds.
    """

    def __init__(self, vocabulary: SymbolVocabulary):
        super().__init__(name="symbols")
        self.unit, self.first = vocabulary.unit, vocabulary.eos_id
        unknown = vocabulary.unk_id if vocabulary.unk_id is not None else 0
        keys = [self._bytes(symbol) for symbol in vocabulary.symbols]
        self.symbols = tf.constant(keys)
        self.table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(
                self.symbols, tf.range(len(keys))
            ),
            default_value=unknown,
        )

    def _bytes(self, symbol: str) -> bytes:
        if self.unit == "byte":
            return bytes([int(symbol)])
        return symbol.encode("utf-8")

    def tokenize(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Strings [B] -> int32 [B, (symbols)]."""
        if self.unit == "byte":
            parts = tf.strings.bytes_split(text)
        elif self.unit == "char":
            parts = tf.strings.unicode_split(text, "UTF-8")
        else:
            parts = tf.strings.split(
                tf.strings.regex_replace(text, _SPACE, " ")
            )
        ids = tf.cast(self.table.lookup(parts), tf.int32)
        if self.first is None:
            return ids
        start = tf.fill([ids.nrows(), 1], self.first)
        return tf.concat([tf.cast(start, tf.int32), ids], 1)

    def detokenize(self, ids: tf.Tensor) -> tf.Tensor:
        """int32 [B, n] -> strings [B]."""
        parts = tf.gather(self.symbols, ids)
        separator = " " if self.unit == "word" else ""
        return tf.strings.reduce_join(parts, 1, separator=separator)
