"""Vocabularies of language models: text -> ids and back (no TensorFlow).

Four units: `word`, `char`, `byte` (a list of symbols each, in a file of ours)
and `piece` (a SentencePiece file). A vocabulary also says how text is read: its
case, and what the end of a line becomes. The order of the symbols is part of
every checkpoint, so `sha256` covers all of it. `data.text.units` says what the
end of a line becomes.
"""

import abc
import collections
import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from common import files
from common.errors import UserError
from common.vocabularies.vocabulary import SYMBOLS_NAME
from data.text.tokenizer import Tokenizer
from data.text.units import (
    EOS,
    MARK,
    NEWLINE,
    UNKNOWN,
    UnknownSymbolError,
    check_settings,
    mark_lines,
)

FILE_NAME = SYMBOLS_NAME
_FORMAT = 1
_CODES = 0x110000


class Vocabulary(abc.ABC):
    """Ids 0..size-1 of one unit."""

    unit: str
    size: int
    line_end: str
    lower_case: bool
    unk_id: int | None  # of what is not known; None = that is an error
    eos_id: int | None  # what a line's end becomes; None with `line_end` none
    sha256: str  # hex digest of symbols, order and settings

    @abc.abstractmethod
    def encode(self, text: str) -> np.ndarray:
        """Ids int32 [n] of a text; each "\\n" in it ends a line.

        The last line is open without one: nothing follows it. Raises
        UnknownSymbolError: text that the vocabulary cannot say.
        """

    @abc.abstractmethod
    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids; what ends a line becomes "\\n"."""

    @abc.abstractmethod
    def symbol(self, index: int) -> str:
        """An id as it is shown to people."""

    @abc.abstractmethod
    def save(self, path: str) -> None:
        """Writes the vocabulary, atomically; `load` reads it."""

    def encode_line(
        self, line: str, line_end: bool = True
    ) -> tuple[np.ndarray, bool]:
        """Ids of a line by itself, and whether its first token has a score.

        The end of a line before it and its own (without `line_end` the line is
        open) stand around it where the vocabulary has one; else its first token
        has nothing to be predicted from. `line` itself is without its end.
        """
        if self.eos_id is None:
            return self.encode(line), False
        ids = self.encode(line + "\n" if line_end else line)
        if self.line_end == "marks" and len(ids):
            return ids, True  # a mark opens it, that of a line
        return np.concatenate([np.asarray([self.eos_id], np.int32), ids]), True

    def require(self, sha256: str, where: str) -> None:
        """Raises UserError unless this is the vocabulary that `where` names."""
        if self.sha256 != sha256:
            raise UserError(
                f"another vocabulary than the one of {where}: wanted SHA-256 "
                f"{sha256[:16]}, found {self.sha256[:16]} ({self.size} "
                f"{self.unit}s); give the file that was used there"
            )


class SymbolVocabulary(Vocabulary):
    """Words, characters or bytes in an order of their own.

    Raises UserError: settings that do not fit, symbols that are missing or
    repeated.

    Args:
      unit: "word", "char" or "byte"; symbols of bytes are decimal numbers.
      symbols: all different; their places are the ids.
      line_end: one of `LINE_ENDS[unit]`.
      unknown: "unk": unknown words and characters become `<unk>` (`<UNK>`)
        where there is one; "error": they are errors.
    """

    def __init__(
        self,
        unit: str,
        symbols: Iterable[str],
        line_end: str,
        lower_case: bool = False,
        unknown: str = "unk",
    ):
        self.unit, self.symbols = unit, tuple(symbols)
        self.line_end, self.lower_case = line_end, bool(lower_case)
        self.unknown = unknown
        check_settings(unit, line_end, lower_case, unknown)
        self.size = len(self.symbols)
        self._table = {s: i for i, s in enumerate(self.symbols)}
        self._check()
        self.unk_id = None
        if unknown == "unk" and unit != "byte":
            unknown_ids = [self._table[s] for s in UNKNOWN if s in self._table]
            self.unk_id = unknown_ids[0] if unknown_ids else None
        self.eos_id = self._find_eos()
        self.sha256 = hashlib.sha256(
            json.dumps(self._identity(), ensure_ascii=True).encode()
        ).hexdigest()
        self._dense = None if unit == "word" else self._dense_table()

    def _identity(self) -> dict[str, Any]:
        return {
            "unit": self.unit,
            "line_end": self.line_end,
            "lower_case": self.lower_case,
            "unknown": self.unknown,
            "symbols": list(self.symbols),
        }

    def _check(self) -> None:
        if not self.size:
            raise UserError("a vocabulary without symbols: the text is empty")
        if len(self._table) < self.size:
            seen = collections.Counter(self.symbols).most_common(1)[0]
            raise UserError(
                f"a vocabulary has {seen[0]!r} {seen[1]} times; ids must be "
                "different: remove the repetition"
            )
        for symbol in self.symbols:
            if self.unit == "byte":
                fits = symbol.isdecimal() and int(symbol) < 256
            elif self.unit == "char":
                fits = len(symbol) == 1 or symbol in UNKNOWN
            else:
                fits = bool(symbol) and not any(c.isspace() for c in symbol)
            if not fits:
                raise UserError(
                    f"a vocabulary of {self.unit}s cannot have the symbol "
                    f"{symbol!r}"
                )

    def _find_eos(self) -> int | None:
        wanted = {
            "eos": EOS,
            "marks": MARK,
            "mark": MARK,
            "newline": "10" if self.unit == "byte" else NEWLINE,
        }.get(self.line_end)
        if wanted is None:
            return None
        if wanted not in self._table:
            if self.line_end == "newline":  # text of one line has none
                return None
            raise UserError(
                f"the symbol {wanted} is missing in the vocabulary: "
                f"--line_end={self.line_end} needs it"
            )
        return self._table[wanted]

    def _dense_table(self) -> np.ndarray:
        """int32: code -> id, -1 = unknown."""
        table = np.full(256 if self.unit == "byte" else _CODES, -1, np.int32)
        for symbol, index in self._table.items():
            if self.unit == "byte":
                table[int(symbol)] = index
            elif len(symbol) == 1:
                table[ord(symbol)] = index
        return table

    # --- Encoding -------------------------------------------------------------

    def encode(self, text: str) -> np.ndarray:
        if self.unit == "byte":
            return self.encode_bytes(text.encode("utf-8"))
        if self.lower_case:
            text = text.lower()
        if self.unit == "word":
            return self._encode_words(text)
        if self.line_end == "none":
            text = text.replace(NEWLINE, "")
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
        return self._look_up(codes)

    def encode_bytes(self, data: bytes) -> np.ndarray:
        """Ids int32 [n] of bytes, for `unit` byte."""
        codes = np.frombuffer(data, np.uint8)
        if self.line_end == "none":
            codes = codes[codes != ord(NEWLINE)]
        return self._look_up(codes)

    def _look_up(self, codes: np.ndarray) -> np.ndarray:
        ids = self._dense[codes]
        if len(ids) and ids.min() < 0:
            if self.unk_id is None:
                code = int(codes[np.argmin(ids)])
                raise UnknownSymbolError(
                    f"byte {code}" if self.unit == "byte" else chr(code)
                )
            ids = np.where(ids < 0, np.int32(self.unk_id), ids)
        return ids

    def _encode_words(self, text: str) -> np.ndarray:
        words = mark_lines(text, self.line_end).split()
        if self.unk_id is not None:
            table, unknown = self._table, self.unk_id
            return np.fromiter(
                (table.get(w, unknown) for w in words), np.int32, len(words)
            )
        try:
            ids = map(self._table.__getitem__, words)
            return np.fromiter(ids, np.int32, len(words))
        except KeyError as e:
            raise UnknownSymbolError(e.args[0]) from e

    # --- Decoding -------------------------------------------------------------

    def symbol(self, index: int) -> str:
        symbol = self.symbols[index]
        if self.unit == "byte":
            symbol = chr(int(symbol)) if int(symbol) < 128 else f"<{symbol}>"
        return repr(symbol)[1:-1] if symbol.isspace() else symbol

    def decode(self, ids: Sequence[int]) -> str:
        symbols = [self.symbols[int(i)] for i in ids]
        if self.unit == "byte":
            return bytes(map(int, symbols)).decode("utf-8", "replace")
        if self.unit == "char":
            return "".join(symbols)
        if self.line_end == "marks":
            # What opens a line says nothing; what closes it is its end.
            text, is_open = [], False
            for symbol in symbols:
                if symbol != MARK:
                    text.append(symbol)
                    is_open = True
                elif is_open:
                    text.append(NEWLINE)
                    is_open = False
            symbols = text
        end = {"eos": EOS, "mark": MARK}.get(self.line_end)
        if end == MARK and symbols[:1] == [MARK]:
            symbols = symbols[1:]
        text = " ".join(NEWLINE if s == end else s for s in symbols)
        return text.replace(" \n", "\n").replace("\n ", "\n")

    # --- Files ----------------------------------------------------------------

    def save(self, path: str) -> None:
        """Writes JSON."""
        value = {"format": _FORMAT} | self._identity()
        value["sha256"] = self.sha256
        files.write_text(path, json.dumps(value, ensure_ascii=False) + "\n")


class PieceVocabulary(Vocabulary):
    """A SentencePiece file."""

    unit = "piece"

    def __init__(self, path: str, line_end: str = "eos", tokenizer=None):
        check_settings("piece", line_end, False, "unk")
        self.tokenizer = tokenizer or Tokenizer(path)
        self.line_end = line_end
        self.lower_case = self.tokenizer.settings.uncased
        self.size = self.tokenizer.vocab_size
        symbols = self.tokenizer.symbols
        self.unk_id = symbols.unk
        end = symbols.eos if symbols.eos >= 0 else symbols.eod
        self.eos_id = end if line_end == "eos" else None
        settings = self.tokenizer.settings.sha256
        self.sha256 = hashlib.sha256(
            f"{self.tokenizer.sha256} {settings} {line_end}".encode()
        ).hexdigest()

    def encode(self, text: str) -> np.ndarray:
        lines = text.split(NEWLINE)
        ids, lengths = self.tokenizer.encode_flat(lines)
        if self.eos_id is None:
            return ids
        ends = np.cumsum(lengths)[:-1]  # the last line is open
        return np.insert(ids, ends, self.eos_id).astype(np.int32)

    def decode(self, ids: Sequence[int]) -> str:
        lines, line = [], []
        for index in [*map(int, ids), None]:
            if index is None or index == self.eos_id:
                lines.append(self.tokenizer.decode(line))
                line = []
            else:
                line.append(index)
        return NEWLINE.join(lines)

    def symbol(self, index: int) -> str:
        """The piece of an id."""
        return self.tokenizer.id_to_piece(index)

    def save(self, path: str) -> None:
        """Writes the SentencePiece file as it was read."""
        with files.atomic_open(path) as f:
            f.write(self.tokenizer.vocabulary.content)


def load(path: str, line_end: str | None = None) -> Vocabulary:
    """Reads a vocabulary of `Vocabulary.save`, or a SentencePiece file.

    The latter, known by its name, says no `line_end`: None = "eos". Raises
    UserError: there is none, or it is damaged.
    """
    if path.endswith(".model"):
        return PieceVocabulary(path, line_end or "eos")
    value = files.read_json_object(
        path, "give the vocabulary.json of `python -m data.create_lm_data`"
    )
    try:
        if value["format"] != _FORMAT:
            raise ValueError(f"wanted format {_FORMAT}")
        names = ("unit", "symbols", "line_end", "lower_case", "unknown")
        vocabulary = SymbolVocabulary(*(value[name] for name in names))
        if vocabulary.sha256 != value["sha256"]:
            raise ValueError("its SHA-256 differs from the stored one")
    except (KeyError, TypeError, ValueError, AttributeError) as e:
        raise UserError(
            f"{path} is damaged or no vocabulary: {e}; take another copy"
        ) from e
    return vocabulary
