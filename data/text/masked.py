"""Texts with hidden places -> ids, cut as the text with its words is cut.

Training hides pieces of a whole text: "the master." is `_the _master .`, and
what stays is `_the <mask> .`. The two sides of a mask encoded each by itself
would be `_the` and `_ .`: a word mark that training never shows, and other
pieces where a word is hidden in part. So a hidden place is one character of the
text here, and the vocabulary gets two pieces more, that character with and
without a word mark before it. Behind the encoding both are the mask's id.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import sentencepiece

from data.text.released.released_tokenizer import ReleasedTokenizer
from data.text.tokenizer import WORD_MARK, Tokenizer

# Characters without a meaning of their own.
_PRIVATE = range(0xE000, 0xF900)


class PlaceVocabulary(NamedTuple):
    """A SentencePiece file that knows a hidden place."""

    # bytes of the file; its ids 0..V-1 are those of the vocabulary, V and V + 1
    # are hidden places
    model: bytes
    place: str  # the character that stands for one
    # a character that the vocabulary lacks; what a text's own `place` becomes
    other: str
    size: int


def with_places(model: bytes) -> PlaceVocabulary:
    """Adds the two pieces to a SentencePiece file's bytes."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    size = processor.get_piece_size()
    used = set("".join(processor.id_to_piece(list(range(size)))))
    free = (chr(point) for point in _PRIVATE if chr(point) not in used)
    hidden, other = next(free), next(free)
    # Their scores bound no others, and the mark with the place is likelier
    # than one after the other.
    score = processor.get_score(processor.piece_to_id(WORD_MARK))
    if processor.piece_to_id(WORD_MARK) == processor.unk_id():
        score = processor.get_score(size - 1)
    pieces = [_piece(text, score) for text in (WORD_MARK + hidden, hidden)]
    return PlaceVocabulary(model + b"".join(pieces), hidden, other, size)


def _piece(text: str, score: float) -> bytes:
    """One more entry of `ModelProto.pieces`; a repeated field may go on."""
    surface = text.encode()
    content = b"\x0a" + bytes([len(surface)]) + surface
    content += b"\x15" + struct.pack("<f", score)
    return b"\x0a" + bytes([len(content)]) + content


class MaskedEncoder:
    """Texts with hidden places -> ids."""

    def __init__(self, tokenizer: Tokenizer):
        self._places = with_places(tokenizer.vocabulary.content)
        self._tokenizer = tokenizer.extended(self._places.model)

    def encode(self, parts: Sequence[str]) -> list[int]:
        """Ids of a text in which the mask's id stands between the parts."""
        hidden, other = self._places.place, self._places.other
        text = hidden.join(part.replace(hidden, other) for part in parts)
        mask, size = self._tokenizer.symbols.mask, self._places.size
        return [i if i < size else mask for i in self._tokenizer.encode(text)]


def masked_ids(
    tokenizer: Tokenizer | ReleasedTokenizer, parts: Sequence[str]
) -> list[int]:
    """Ids of a text with the mask's id between the parts, of any tokenizer."""
    if isinstance(tokenizer, ReleasedTokenizer):
        # It reads its own symbol in a text.
        mask = tokenizer.id_to_piece(tokenizer.symbols.mask)
        return tokenizer.encode(mask.join(parts))
    return MaskedEncoder(tokenizer).encode(parts)


class FilledText(NamedTuple):
    """A text whose places are filled, and the pieces of each filling."""

    ids: np.ndarray  # int32 [T] of the whole text
    # bool [places, T]: pieces that hold a character of the filling, and the
    # word marks right before them
    hidden: np.ndarray


def encode_filled(
    tokenizer: Tokenizer | ReleasedTokenizer,
    parts: Sequence[str],
    fills: Sequence[str],
) -> FilledText:
    """Encodes the whole text, and finds the pieces of each filling."""
    text, spans = parts[0], []
    for fill, part in zip(fills, parts[1:], strict=True):
        spans.append((len(text), len(text) + len(fill)))
        text += fill + part
    ids, starts, ends = tokenizer.encode_spans(text)
    hidden = np.zeros([len(spans), len(ids)], bool)
    for row, (start, end) in zip(hidden, spans, strict=True):
        # A lone word mark has an empty span, where its word begins.
        mark = (starts == ends) & (starts >= start)
        row[:] = (starts < end) & ((ends > start) | mark)
    return FilledText(np.asarray(ids, np.int32), hidden)
