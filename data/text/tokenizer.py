"""Text -> piece ids, equal to the original's, and back (no TensorFlow).

`data.text.normalization` normalises, SentencePiece cuts into pieces, and a piece that ends in
digit + comma is cut again: the digits are encoded on their own. (So `2000,`
and `2000` share their pieces.)
"""

import copy
import itertools
import re
from collections.abc import Sequence

import numpy as np
import sentencepiece

from common.contract import symbols as symbols_lib
from common.errors import UserError
from common.vocabularies import vocabulary as vocabulary_lib
from common.vocabularies.released_vocabulary import is_released
from common.vocabularies.text_settings import TextChoice, TextSettings
from data.text import normalization as text_lib

WORD_MARK = "\u2581"  # SentencePiece's mark of a word's beginning
# What SentencePiece takes for a space.
_BLANK = re.compile(r"[\s\u200b]")
_BYTE = re.compile("<0x[0-9A-F]{2}>")
_PUNCTUATION = frozenset('!"#$%&"()*+,-./:;?@[\\]^_`{|}~')
_REQUIRED = {
    "cls": symbols_lib.CLS,
    "sep": symbols_lib.SEP,
    "pad": symbols_lib.PAD,
    "mask": symbols_lib.MASK,
    "eod": symbols_lib.EOD,
    "eop": symbols_lib.EOP,
}
_OPTIONAL = {"bos": symbols_lib.BOS, "eos": symbols_lib.EOS}


def split_piece(
    processor: sentencepiece.SentencePieceProcessor, piece: str
) -> list[str]:
    """The pieces that replace one, in the original's way.

    "\u25812000," -> the pieces of "2000", then ",": the digits are encoded on
    their own and keep the word mark only where the piece had it.
    """
    if len(piece) < 2 or piece[-1] != "," or not piece[-2].isdigit():
        return [piece]
    digits = piece[:-1].replace(WORD_MARK, "")
    parts = processor.encode(digits, return_type=str)
    if piece[0] != WORD_MARK and parts and parts[0][0] == WORD_MARK:
        rest = parts[0][1:]
        parts = [rest, *parts[1:]] if rest else parts[1:]
    return [*parts, ","]


class Tokenizer:
    """A SentencePiece file with the text handling that belongs to it.

    `symbols` is `SymbolIds` as the file has them, `sha256` the hex digest of
    its bytes, `word_starts` bool [V], pieces that begin a word: a word mark, a
    symbol such as `<eod>`, or one punctuation character. Raises UserError: the
    file is missing or damaged, is no SentencePiece model, lacks a special
    symbol, or is of other text settings than `text`.

    Args:
      text: what a user or something made with the vocabulary says about text
        handling; taken where the vocabulary has no record of it, else it must
        agree.
    """

    def __init__(
        self,
        spiece_model_file: str,
        text: TextChoice | TextSettings | None = None,
    ):
        self.path = spiece_model_file
        if is_released(spiece_model_file):
            raise UserError(
                f"{self.path}: wanted a SentencePiece file with "
                f"{', '.join(_REQUIRED.values())}, found the tokenizer of "
                "released weights; give the spiece.model of an XLNet, or "
                "train one with `python -m data.train_sentencepiece`"
            )
        self.vocabulary = vocabulary_lib.read(spiece_model_file)
        self.settings = self.vocabulary.resolve(text)
        self.sha256 = self.vocabulary.sha256
        self._rewriting = (
            self.settings.uncased,
            self.settings.keep_accents,
            self.settings.remove_space,
        )
        try:
            self._read_model(self.vocabulary.content)
        except (RuntimeError, OSError, ValueError, LookupError) as e:
            raise UserError(
                f"{self.path}: wanted a SentencePiece model, found "
                f"{len(self.vocabulary.content)} bytes that are none or are "
                "damaged; give the .model file, not the .vocab"
            ) from e

    def _read_model(self, model: bytes) -> None:
        self._processor = sentencepiece.SentencePieceProcessor(
            model_proto=model
        )
        self.vocab_size = self._processor.get_piece_size()
        self._pieces = self._processor.id_to_piece(list(range(self.vocab_size)))
        self.symbols = self._read_symbols()
        self.word_starts = np.asarray([is_word_start(p) for p in self._pieces])
        self._make_split_tables()
        self._mark = self.piece_to_id(WORD_MARK)
        self._without_text = np.asarray(
            [not p.strip(WORD_MARK) for p in self._pieces]
        )

    def extended(self, model: bytes) -> "Tokenizer":
        """The same text handling over a file that has more pieces behind."""
        other = copy.copy(self)
        other._read_model(model)
        return other

    # --- Symbols and pieces ---------------------------------------------------

    def _read_symbols(self) -> symbols_lib.SymbolIds:
        unk = self._processor.unk_id()
        ids = {"unk": unk}
        for name, piece in (_REQUIRED | _OPTIONAL).items():
            index = self._processor.piece_to_id(piece)
            known = index != unk or piece == self._pieces[unk]
            if not known and name in _REQUIRED:
                raise UserError(
                    f"{self.path}: the special symbol {piece} is missing; wanted "
                    f"{', '.join(_REQUIRED.values())}: train the vocabulary "
                    "with `python -m data.train_sentencepiece`"
                )
            ids[name] = index if known else -1
        return symbols_lib.SymbolIds(**ids)

    def id_to_piece(self, index: int) -> str:
        """The piece of an id in 0..V-1."""
        return self._pieces[index]

    def piece_to_id(self, piece: str) -> int:
        """The id of a piece; unknown pieces give the id of `<unk>`."""
        return self._processor.piece_to_id(piece)

    def decode(self, ids: Sequence[int]) -> str:
        """Detokenises: word marks become spaces, symbols are left out."""
        return self._processor.decode([int(i) for i in ids])

    # --- Digit + comma --------------------------------------------------------

    def _make_split_tables(self) -> None:
        """Parts of every piece after the split, flat; most are one part."""
        size = self.vocab_size
        self._splits, chars_of = {}, {}
        self._split_sizes = np.ones(size, np.int64)
        for i, piece in enumerate(self._pieces):
            if piece[-1:] != ",":
                continue
            parts = split_piece(self._processor, piece)
            if len(parts) > 1:
                self._splits[i] = [self.piece_to_id(p) for p in parts]
                self._split_sizes[i] = len(parts)
                chars_of[i] = [len(p.replace(WORD_MARK, "")) for p in parts]
        self._split_starts = np.cumsum(self._split_sizes) - self._split_sizes
        # Of each part: its id, whether a blank may stand before it, and its
        # characters behind that.
        marked = np.asarray([p[:1] == WORD_MARK for p in self._pieces], int)
        chars = np.asarray([len(p) for p in self._pieces]) - marked
        self._split_flat, self._part_blanks, self._part_chars = (
            np.repeat(values, self._split_sizes)
            for values in (np.arange(size, dtype=np.int32), marked, chars)
        )
        for i, ids in self._splits.items():
            start = self._split_starts[i]
            rest = slice(start + 1, start + len(ids))
            self._split_flat[start : rest.stop] = ids
            self._part_chars[start : rest.stop] = chars_of[i]
            self._part_blanks[rest] = 0
        # Where "," is unknown it can sit in a longer unknown piece, of which
        # only the surface tells whether it is to be split.
        comma = self.piece_to_id(",")
        self._by_surface = comma == self.symbols.unk
        self._spelt = not self._by_surface and all(
            sum(counts) == chars[i] for i, counts in chars_of.items()
        )

    def is_split(self, index: int) -> bool:
        """Whether other pieces replace the one with an id in 0..V-1."""
        return index in self._splits

    # --- Encoding -------------------------------------------------------------

    def normalise(self, text: str) -> str:
        """The text that SentencePiece sees."""
        return text_lib.normalise(text, *self._rewriting)

    def encode(self, text: str) -> list[int]:
        """Ids of one text, without any special symbol added."""
        text = self.normalise(text)
        if self._by_surface:
            return [self.piece_to_id(p) for p in self._encode_pieces(text)]
        # SentencePiece makes a comma of the full-width one, too: only the
        # pieces tell whether there is something to cut.
        ids = self._processor.encode(text)
        splits = self._splits
        if splits.keys().isdisjoint(ids):
            return ids
        return [j for i in ids for j in splits.get(i, (i,))]

    def encode_pieces(self, text: str) -> list[str]:
        """The pieces of one text; `encode` gives their ids."""
        return self._encode_pieces(self.normalise(text))

    def _encode_pieces(self, normalised: str) -> list[str]:
        pieces = self._processor.encode(normalised, return_type=str)
        return [q for p in pieces for q in split_piece(self._processor, p)]

    def encode_batch(
        self, texts: Sequence[str], num_threads: int = 1
    ) -> list[np.ndarray]:
        """`encode` of many texts."""
        ids, lengths = self.encode_flat(texts, num_threads)
        ends = np.cumsum(lengths).tolist()
        return [ids[a:b] for a, b in itertools.pairwise([0, *ends])]

    def encode_flat(
        self, texts: Sequence[str], num_threads: int = 1
    ) -> tuple[np.ndarray, np.ndarray]:
        """`encode_batch`, laid end to end.

        ids int32 [sum of lengths], lengths int64 [len(texts)].
        """
        if self._by_surface:
            arrays = [np.asarray(self.encode(t), np.int32) for t in texts]
        else:
            arrays = self._processor.encode(
                text_lib.normalise_all(texts, *self._rewriting),
                return_type="numpy",
                num_threads=num_threads,
            )
        lengths = np.fromiter(map(len, arrays), np.int64, len(arrays))
        if not lengths.sum():
            return np.zeros(0, np.int32), lengths
        ids = np.concatenate(arrays)
        if self._by_surface or not self._splits:
            return ids, lengths
        sizes = self._split_sizes[ids]
        if sizes.max() > 1:
            ids, lengths = self._split_ids(ids, sizes, lengths)
        return ids, lengths

    def _split_ids(self, ids, sizes, lengths):
        ends = np.concatenate([[0], np.cumsum(sizes)])[np.cumsum(lengths)]
        return self._split_flat[self._parts(ids)], np.diff(ends, prepend=0)

    def _parts(self, ids: np.ndarray) -> np.ndarray:
        """Numbers of the pieces' parts in the flat tables."""
        sizes = self._split_sizes[ids]
        ends = np.cumsum(sizes)
        first = self._split_starts[ids] - (ends - sizes)
        return np.repeat(first, sizes) + np.arange(sizes.sum())

    def encode_with_offsets(
        self, text: str
    ) -> tuple[list[int], list[int], list[int]]:
        """Ids with the raw characters that each piece came from.

        ids, starts, ends of equal length; `text[start:end]` holds the piece,
        without the white space that its word mark stands for. A lone word mark
        has an empty span; pieces that came from one raw character share its
        span; a dropped combining mark belongs to the piece before it.
        """
        return tuple(x.tolist() for x in self.encode_spans(text))

    def encode_spans(
        self, text: str
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """`encode_with_offsets` as int64 arrays."""
        normalised = self.normalise(text)
        spans = self._spelt_spans(normalised)
        if spans is None:
            spans = self._searched_spans(normalised)
        ids, starts, ends = spans
        if text.isascii() and len(normalised) == len(text):
            # Every character has its own place.
            return ids, starts, np.maximum(starts, ends)
        aligned = text_lib.align(text, *self._rewriting)
        return ids, *_raw_spans(aligned, len(text), starts, ends)

    def encode_spans_batch(
        self, texts: Sequence[str]
    ) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """`encode_spans` of many texts."""
        return [self.encode_spans(text) for text in texts]

    def _spelt_spans(self, text: str):
        """Ids and spans of a normalised text that its pieces spell, else None.

        Blanks are single " " before pieces, so that lengths give all places.
        """
        if (
            not self._spelt
            or not text.isprintable()
            or text.startswith(" ")
            or "  " in text
            or WORD_MARK in text
        ):
            return None
        ids = self._processor.encode(text, return_type="numpy")
        spelling = "".join([self._pieces[i] for i in ids.tolist()])
        if spelling != WORD_MARK + text.replace(" ", WORD_MARK):
            return None
        parts = self._parts(ids)
        chars = self._part_chars[parts]
        ends = np.cumsum(chars + self._part_blanks[parts]) - 1
        return self._split_flat[parts].astype(np.int64), ends - chars, ends

    def _searched_spans(self, text: str):
        """Ids and spans of any normalised text."""
        result = self._processor.encode(text, return_type="offset_mapping")
        ids = np.asarray(result["ids"], np.int64)
        if self._by_surface or self._mark == self.symbols.unk:
            slow = np.arange(len(ids))
        else:
            slow = np.flatnonzero(self._split_sizes[ids] > 1)
        spans = np.asarray(result["offsets"], np.int64).reshape(-1, 2)
        starts, ends = self._plain_spans(ids, spans, text)
        if len(slow):
            return self._splice(slow, (ids, starts, ends), result, text)
        return ids, starts, ends

    def _plain_spans(self, ids, spans, text: str):
        """What `_split_span` gives for pieces that stay whole."""
        starts, ends = spans[:, 0], spans[:, 1]
        taken_apart = (starts == ends) & (ids != self._mark)
        ends = ends + (taken_apart & (starts < len(text)))
        blanks = [m.start() for m in _BLANK.finditer(text)]
        if blanks:
            # The next character that is none, from each on.
            places = np.arange(len(text) + 1)
            places[blanks] = len(text)
            places = np.minimum.accumulate(places[::-1])[::-1]
            starts = np.minimum(places[starts], np.maximum(starts, ends))
        return starts, np.where(self._without_text[ids], starts, ends)

    def _splice(self, slow, arrays, result, text: str):
        """Replaces the pieces numbered `slow` by their parts."""
        chunks, first = [], 0
        for i in slow.tolist():
            chunks.append([x[first:i] for x in arrays])
            parts = list(
                self._split_span(
                    result["pieces"][i], result["offsets"][i], text
                )
            )
            ids = [self.piece_to_id(part) for part, _, _ in parts]
            chunks.append([ids, [p[1] for p in parts], [p[2] for p in parts]])
            first = i + 1
        chunks.append([x[first:] for x in arrays])
        return [
            np.concatenate([np.asarray(c[k], np.int64) for c in chunks])
            for k in range(3)
        ]

    def _split_span(self, piece: str, span: tuple[int, int], text: str):
        """Parts of a piece with their spans in the normalised text."""
        start, end = span
        has_text = piece != WORD_MARK
        if end == start and has_text and start < len(text):
            end = start + 1  # SentencePiece took one character apart
        while start < end and _BLANK.match(text[start]):
            start += 1
        parts = split_piece(self._processor, piece)
        sizes = [len(p.replace(WORD_MARK, "")) for p in parts]
        if len(parts) > 1 and sum(sizes) == end - start:
            for part, size in zip(parts, sizes, strict=True):
                yield part, start, start + size
                start += size
            return
        for part, size in zip(parts, sizes, strict=True):
            yield part, start, end if size else start


def _raw_spans(aligned, raw_length, starts, ends):
    """Spans of normalised characters -> spans of raw characters."""
    first = np.append(aligned.starts, raw_length)[np.asarray(starts, np.int64)]
    last = np.insert(aligned.ends, 0, 0)[np.asarray(ends, np.int64)]
    empty = np.asarray(starts) >= np.asarray(ends)
    last = np.where(empty, first, last)
    return first, last


def is_word_start(piece: str) -> bool:
    """Whether a piece begins a word: word mark, symbol or punctuation.

    A byte (`<0xE7>`) is a part of a character that has no piece.
    """
    if piece[:1] == "<" and _BYTE.fullmatch(piece):
        return False
    return piece[:1] in (WORD_MARK, "<") or piece in _PUNCTUATION
