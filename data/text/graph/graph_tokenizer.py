"""Text -> piece ids with offsets inside a TensorFlow graph.

The same ids as the offline tokenizer, without Python: `data.text.graph.graph_text`'s
normalisation, `tensorflow_text`'s SentencePiece, and a static piece -> ids
table for the digit + comma rule.

    raw bytes -> code points -> tables -> bytes -> pieces -> ids, offsets

Every table is a constant of the graph, so an exported function depends on no
file and no Python version.
"""

import unicodedata

import numpy as np
import sentencepiece
import tensorflow as tf
import tensorflow_text as tf_text

from common.contract.symbols import MASK
from common.vocabularies.text_settings import TextSettings
from data.text.graph.graph_base import RawTokenizer, Spans
from data.text.graph.graph_text import (
    CODE_POINTS,
    SURROGATES,
    GraphNormalizer,
    encode,
    expand,
    find,
    points_of_bytes,
    utf8_sizes,
)
from data.text.masked import with_places
from data.text.tokenizer import WORD_MARK, split_piece

_ZERO_WIDTH_SPACE = 0x200B


class GraphTokenizer(RawTokenizer):
    """Raw UTF-8 strings -> ids, equal to the offline tokenizer's.

    Text must be valid UTF-8: TensorFlow raises InvalidArgumentError otherwise.

    Args:
      model: bytes of a SentencePiece model file; they become a constant.
      settings: of the vocabulary; text handling before SentencePiece.
      normalizer: of the same settings, where one exists.
      name: two vocabularies of one exported function need two.
    """

    def __init__(
        self,
        model: bytes,
        settings: TextSettings,
        normalizer: GraphNormalizer | None = None,
        name: str = "graph_tokenizer",
    ):
        super().__init__(name=name)
        self._model, self._masked = model, None
        self._sentencepiece = tf_text.SentencepieceTokenizer(
            model=model, name=name
        )
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        self.vocab_size = processor.get_piece_size()
        with tf.init_scope():
            self._normalizer = normalizer or GraphNormalizer(settings)
            self._make_tables(processor)

    def _make_tables(self, processor) -> None:
        self._pieces = tf.constant(
            [processor.id_to_piece(i) for i in range(self.vocab_size)]
        )
        rows = []  # one per part: id, characters, offset, total, lone mark
        lengths = []
        # Where "," is unknown it can stand in one piece with unknown digits,
        # of which only the text tells whether it is to be split.
        self._unknown = processor.unk_id()
        self._by_text = processor.piece_to_id(",") == self._unknown
        self._digits, self._commas, self._longer = map(
            tf.constant, _numeric_characters(processor, self._by_text)
        )
        for i in range(self.vocab_size):
            piece = processor.id_to_piece(i)
            parts = split_piece(processor, piece)
            numbers = map(processor.piece_to_id, parts)
            if len(parts) == 1:
                numbers = [i]
            sizes = [len(part.replace(WORD_MARK, "")) for part in parts]
            lengths.append(len(parts))
            for number, part, size, offset in zip(
                numbers, parts, sizes, np.cumsum([0, *sizes]), strict=False
            ):
                rows.append(
                    (number, size, offset, sum(sizes), part == WORD_MARK)
                )
        # Behind all pieces unknown ones that are split: with the spans of their
        # text, and with one span where SentencePiece rewrote it.
        lengths += [2, 2]
        rows += [(self._unknown, 0, 0, -1, False)] * 4
        columns = np.asarray(rows, np.int32).T
        self._piece_ids, self._piece_sizes = map(tf.constant, columns[:2])
        self._piece_offsets, self._piece_totals = map(tf.constant, columns[2:4])
        self._piece_lone = tf.constant(columns[4] == 1)
        self._piece_lengths = tf.constant(lengths, tf.int32)
        self._piece_starts = tf.cumsum(self._piece_lengths, exclusive=True)

    def normalize(self, texts: tf.Tensor) -> tf.Tensor:
        """[B] raw UTF-8 -> [B] the text that SentencePiece sees."""
        return encode(self._normalizer(texts))

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """[B] raw UTF-8 -> int32 [B, (pieces)] ids."""
        if self._by_text:
            return self.tokenize_with_offsets(texts)[0]
        pieces = self._sentencepiece.tokenize(self.normalize(texts))
        _, _, ids, lengths = self._split(pieces)
        return tf.RaggedTensor.from_row_lengths(ids, lengths, validate=False)

    def tokenize_masked(self, texts: tf.Tensor, mask: int) -> tf.RaggedTensor:
        """[B] raw UTF-8 with `<mask>`s -> int32 [B, (pieces)].

        They are cut as by `data.text.masked`; a hidden place gets the id `mask`.
        """
        if self._masked is None:
            # A part of this module, so that an export keeps its vocabulary.
            places = with_places(self._model)
            with tf.init_scope():
                self._masked = GraphTokenizer(
                    places.model,
                    self._normalizer.options,
                    self._normalizer,
                    name="masked_tokenizer",
                )
            self._places = places.place, places.other
        hidden, other = self._places
        texts = tf.strings.regex_replace(texts, hidden, other)
        ids = self._masked.tokenize(
            tf.strings.regex_replace(texts, MASK, hidden)
        )
        return ids.with_values(
            tf.where(ids.values < self.vocab_size, ids.values, mask)
        )

    def detokenize(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """int32 [B, (pieces)] -> [B] text; symbols are left out."""
        return self._sentencepiece.detokenize(ids)

    def _split(self, pieces: tf.RaggedTensor):
        """Replaces digit + comma pieces; ids, their sources and row lengths."""
        repeats = tf.gather(self._piece_lengths, pieces.values)
        source, offset = expand(repeats)
        piece = tf.gather(pieces.values, source)
        slot = tf.gather(self._piece_starts, piece) + offset
        per_row = tf.RaggedTensor.from_row_splits(
            repeats, pieces.row_splits, validate=False
        )
        lengths = tf.cast(tf.reduce_sum(per_row, axis=1), tf.int64)
        return source, slot, tf.gather(self._piece_ids, slot), lengths

    def tokenize_with_offsets(self, texts: tf.Tensor) -> Spans:
        """See the base; a lone word mark has an empty span."""
        flat = self._normalizer(texts)
        pieces, starts, ends = self._sentencepiece.tokenize_with_offsets(
            encode(flat)
        )
        if self._by_text:
            pieces = self._with_split(pieces, flat, starts, ends)
        source, slot, ids, lengths = self._split(pieces)
        rows = tf.gather(tf.cast(pieces.value_rowids(), tf.int32), source)
        start, end = self._points_of(
            flat,
            rows,
            tf.gather(tf.cast(starts.values, tf.int32), source),
            tf.gather(tf.cast(ends.values, tf.int32), source),
        )
        start, end = self._part_of(slot, start, end)
        if self._by_text:
            start, end = self._unknown_part(slot, start, end)
        texts_end = tf.strings.length(texts, "UTF8_CHAR")
        after = tf.gather(tf.concat([texts_end, [0]], 0), rows)
        row_ends = tf.gather(tf.cumsum(flat.lengths()), rows)
        first = tf.gather(tf.concat([flat.starts, [0]], 0), start)
        first = tf.where(start < row_ends, first, after)
        last = tf.gather(tf.concat([[0], flat.ends], 0), end)
        last = tf.where(end > start, last, first)
        return tuple(
            tf.RaggedTensor.from_row_lengths(v, lengths, validate=False)
            for v in (ids, first, last)
        )

    def _with_split(self, pieces, flat, starts, ends) -> tf.RaggedTensor:
        """Pieces with V or V + 1 for unknown ones that are to be split.

        They end with a digit and a comma.
        """
        rows = tf.cast(pieces.value_rowids(), tf.int32)
        first, last = self._points_of(
            flat,
            rows,
            tf.cast(starts.values, tf.int32),
            tf.cast(ends.values, tf.int32),
        )
        points = tf.concat([flat.points, [0]], 0)
        comma = tf.gather(points, tf.maximum(last - 1, 0))
        digit = tf.gather(points, tf.maximum(last - 2, 0))
        split = tf.equal(pieces.values, self._unknown) & (last - first > 1)
        split &= find(self._commas, comma)[1] & find(self._digits, digit)[1]
        changes = tf.cumsum(tf.cast(find(self._longer, points)[1], tf.int32))
        changes = tf.concat([[0], changes], 0)
        changes = tf.gather(changes, last) - tf.gather(changes, first)
        row = self.vocab_size + tf.cast(changes > 0, tf.int32)
        return pieces.with_values(tf.where(split, row, pieces.values))

    def _unknown_part(self, slot, start, end):
        """The comma of a split unknown piece, or what stands before it."""
        slots = tf.size(self._piece_ids)
        return (
            tf.where(tf.equal(slot, slots - 3), end - 1, start),
            tf.where(tf.equal(slot, slots - 4), end - 1, end),
        )

    def _points_of(self, flat, rows, start, end):
        """Byte spans in the rows' text -> spans of code points, trimmed."""
        sizes = utf8_sizes(flat.points)
        row_starts = tf.cumsum(flat.lengths(), exclusive=True)
        before = tf.concat([[0], tf.cumsum(sizes)], 0)  # bytes before each
        base = tf.gather(before, tf.gather(row_starts, rows))
        row_end = tf.gather(row_starts + flat.lengths(), rows)
        first, last = points_of_bytes(sizes, base + start, base + end)
        # A character that SentencePiece itself took apart (keep_accents) ends
        # in its last piece only: the pieces before get its whole span, too.
        last = tf.where(end > start, last, tf.minimum(first + 1, row_end))
        # SentencePiece makes a word mark of the zero-width space, too.
        blank = self._normalizer.is_white(flat.points)
        blank |= tf.equal(flat.points, _ZERO_WIDTH_SPACE)
        text_at = tf.cast(tf.where(~blank)[:, 0], tf.int32)
        index = tf.searchsorted(text_at, first, side="left")
        end_of_all = tf.fill([1], tf.size(flat.points))
        trimmed = tf.gather(tf.concat([text_at, end_of_all], 0), index)
        return tf.minimum(trimmed, last), last

    def _part_of(self, slot, start, end):
        """Narrows the span of a digit + comma piece to the part in `slot`."""
        total = tf.gather(self._piece_totals, slot)
        size = tf.gather(self._piece_sizes, slot)
        at = start + tf.gather(self._piece_offsets, slot)
        # Else SentencePiece rewrote the digits: all parts share the span.
        exact = tf.equal(end - start, total)
        start, end = tf.where(exact, at, start), tf.where(exact, at + size, end)
        lone = tf.gather(self._piece_lone, slot)
        return start, tf.where(lone, start, tf.maximum(end, start))


def _numeric_characters(processor, needed: bool) -> tuple[list[int], ...]:
    """Sorted characters of which SentencePiece's normalisation makes others.

    Those that end with a digit, with a comma, and those that become several.
    One number of no character in each where they are not `needed`.
    """
    digits, commas, longer = [-1], [-1], [-1]
    for point in range(CODE_POINTS) if needed else ():
        char = chr(point)
        stays = unicodedata.normalize("NFKC", char) == char
        if point in SURROGATES or (
            stays and char != "," and not char.isdigit()
        ):
            continue
        form = processor.normalize(char).lstrip(WORD_MARK)
        digits += [point] * form[-1:].isdigit()
        commas += [point] * form.endswith(",")
        longer += [point] * (len(form) > 1)
    return digits, commas, longer
