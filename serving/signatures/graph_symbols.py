"""Bytes, characters, words and pieces of a vocabulary inside a graph.

A text begins a line: what a vocabulary puts before a line comes first, so that
the first symbol is predicted from something.
"""

import tensorflow as tf

from data.text.graph.graph_tokenizer import GraphTokenizer
from data.text.lm_vocabulary import (
    PieceVocabulary,
    SymbolVocabulary,
    Vocabulary,
)
from data.text.units import NEWLINE, mark_lines

# What Python's `str.split` divides words at.
_SPACE = r"[\s\x{1c}-\x{1f}\x{85}\p{Z}]+"


def tokenizer_of(vocabulary: Vocabulary) -> tf.Module | None:
    """What gives exactly the ids of `Vocabulary.encode`; None = no graph does.

    Lower-casing differs on some characters.
    """
    if isinstance(vocabulary, PieceVocabulary):
        return GraphPieces(vocabulary)
    exact = (
        not vocabulary.lower_case
        and vocabulary.line_end != "marks"
        and (
            vocabulary.unk_id is not None
            or (vocabulary.unit, vocabulary.size) == ("byte", 256)
        )
    )
    return GraphSymbols(vocabulary) if exact else None


def _after(first: int | None, ids: tf.RaggedTensor) -> tf.RaggedTensor:
    """int32 [B, (n)] behind the end of the line before, where there is one."""
    ids = tf.cast(ids, tf.int32)
    if first is None:
        return ids
    start = tf.fill([ids.nrows(), 1], first)
    return tf.concat([tf.cast(start, tf.int32), ids], 1)


class GraphSymbols(tf.Module):
    """Texts -> ids and back."""

    def __init__(self, vocabulary: SymbolVocabulary):
        super().__init__(name="symbols")
        self.unit, self.first = vocabulary.unit, vocabulary.eos_id
        self.line_end = vocabulary.line_end
        unknown = vocabulary.unk_id if vocabulary.unk_id is not None else 0
        keys = [self._bytes(symbol) for symbol in vocabulary.symbols]
        self.symbols = tf.constant(keys)
        shown = list(keys)
        if self.first is not None:
            shown[self.first] = b"\n"
        self.shown = tf.constant(shown)
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
        if self.unit != "word" and self.line_end == "none":
            text = tf.strings.regex_replace(text, NEWLINE, "")
        if self.unit == "byte":
            parts = tf.strings.bytes_split(text)
        elif self.unit == "char":
            parts = tf.strings.unicode_split(text, "UTF-8")
        else:
            end = mark_lines(NEWLINE, self.line_end)
            text = tf.strings.regex_replace(text, NEWLINE, end)
            parts = tf.strings.split(
                tf.strings.regex_replace(text, _SPACE, " ")
            )
        return _after(self.first, self.table.lookup(parts))

    def continuation(self, rows: tf.RaggedTensor, ids: tf.Tensor) -> tf.Tensor:
        """See `GraphPieces`; a word that goes on a line has a space before it."""
        return _added(self, rows, ids)

    def _text(self, rows: tf.RaggedTensor) -> tf.Tensor:
        parts = tf.gather(self.shown, rows)
        if self.unit != "word":
            return tf.strings.reduce_join(parts, 1)
        text = tf.strings.reduce_join(parts, 1, separator=" ")
        return tf.strings.regex_replace(text, " ?\n ?", "\n")


def _added(vocabulary, rows: tf.RaggedTensor, ids: tf.Tensor) -> tf.Tensor:
    """What ids [B, n] add to the texts of `rows`, strings [B]."""
    if vocabulary.first is not None:
        rows = rows[:, 1:]
    more = tf.RaggedTensor.from_tensor(ids)
    head = vocabulary._text(rows)
    whole = vocabulary._text(tf.concat([rows, more], 1))
    size = tf.strings.length(head)
    return tf.strings.substr(whole, size, tf.strings.length(whole) - size)


class GraphPieces(tf.Module):
    """Texts -> ids of a SentencePiece file and back."""

    def __init__(self, vocabulary: PieceVocabulary):
        super().__init__(name="pieces")
        offline = vocabulary.tokenizer
        self.first = vocabulary.eos_id
        self.tokenizer = GraphTokenizer(
            offline.vocabulary.content, offline.settings
        )

    def tokenize(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Strings [B] -> int32 [B, (pieces)]."""
        lines = tf.strings.split(text, NEWLINE)  # [B, (lines)]
        ids = self.tokenizer.tokenize(lines.values)  # [all lines, (pieces)]
        row = lines.value_rowids()
        if self.first is not None:  # the last line of a text is open
            ends = tf.cast(tf.equal(row[:-1], row[1:]), tf.int64)
            ends = tf.pad(ends, [[0, 1]])[: tf.size(row)]
            ids = tf.concat([tf.cast(ids, tf.int32), self._ends(ends)], 1)
        whole = tf.math.unsorted_segment_sum(
            tf.cast(ids.row_lengths(), tf.int64), row, lines.nrows()
        )
        rows = tf.RaggedTensor.from_row_lengths(
            ids.values, whole, validate=False
        )
        return _after(self.first, rows)

    def _ends(self, counts: tf.Tensor) -> tf.RaggedTensor:
        """int32 [n, (0 or 1)]: the id that ends a line, so often."""
        values = tf.fill([tf.reduce_sum(counts)], self.first)
        return tf.RaggedTensor.from_row_lengths(
            tf.cast(values, tf.int32), counts, validate=False
        )

    def continuation(self, rows: tf.RaggedTensor, ids: tf.Tensor) -> tf.Tensor:
        """What int32 [B, n] adds to the text of the ids before, strings [B].

        A piece says whether a space stands before it, so that the two texts
        can be put together.
        """
        return _added(self, rows, ids)

    def _text(self, rows: tf.RaggedTensor) -> tf.Tensor:
        """int32 [B, (n)] -> strings [B]; ends of lines become newlines."""
        values, row = rows.values, tf.cast(rows.value_rowids(), tf.int32)
        end = -1 if self.first is None else self.first
        ends = tf.cast(values == end, tf.int32)
        count = tf.cast(rows.nrows(), tf.int32)
        lines = 1 + tf.math.unsorted_segment_sum(ends, row, count)  # [B]
        line = row + tf.cumsum(ends, exclusive=True)
        kept = values != end
        pieces = tf.RaggedTensor.from_value_rowids(
            values[kept], line[kept], tf.reduce_sum(lines), validate=False
        )
        parts = tf.RaggedTensor.from_row_lengths(
            self.tokenizer.detokenize(pieces), lines, validate=False
        )
        return tf.strings.reduce_join(parts, 1, separator="\n")
