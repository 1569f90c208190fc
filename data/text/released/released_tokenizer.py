"""Tokenizers of released weights: `tokenizer.json` or `vocab.txt`.

Read by the package `tokenizers`, an optional one (requirements-tokenizers.txt).
Normalisation and cutting are the file's own; `common.vocabularies.text_settings` says nothing
about them.
"""

import base64
import itertools
import json
from collections.abc import Sequence

import numpy as np

from common import optional
from common.contract import symbols as symbols_lib
from common.errors import UserError
from common.vocabularies import frames
from common.vocabularies import vocabulary as vocabulary_lib
from common.vocabularies.text_settings import TextChoice, TextSettings
from data.text import normalization
from data.text.released import word_cache
from data.text.tokenizer import WORD_MARK

REQUIREMENTS = "requirements-tokenizers.txt"
_OPTIONAL = {
    "bos": symbols_lib.BOS,
    "eos": symbols_lib.EOS,
    "eod": symbols_lib.EOD,
    "eop": symbols_lib.EOP,
}


# Ids that a small file may have; others have a byte for each at least.
_SPARSE = 1 << 20
_MOST_GROWTH = 1000  # characters that all replacements make of one


class ReleasedTokenizer:
    """What tasks and commands ask of a `data.text.tokenizer.Tokenizer`.

    `text` is taken as it is: the file has rules of its own. `vocabulary`,
    `settings`, `symbols`, `vocab_size` and `sha256` are as `Tokenizer`'s, but
    weights may have more rows than `vocab_size`; `rules` is the file as JSON,
    `package` the package's object, which neither cuts nor pads rows. Raises
    UserError: the file is missing or damaged, lacks a symbol, or the package is
    not installed.
    """

    def __init__(
        self, path: str, text: TextChoice | TextSettings | None = None
    ):
        self.path = path
        self.vocabulary = vocabulary_lib.read(path)
        self.settings = self.vocabulary.resolve(text)
        self.sha256 = self.vocabulary.sha256
        package = optional.load("tokenizers", path, REQUIREMENTS)
        try:
            content = self.vocabulary.content.decode("utf-8")
            self.rules = json.loads(content)
            _check_normalizers(self.rules)
            self.package = package.Tokenizer.from_str(content)
        # The package raises nothing narrower.
        except Exception as e:
            raise UserError(
                f"{path}: wanted a tokenizer.json of the tokenizers package, "
                f"but {' '.join(str(e).split())}; take another copy"
            ) from e
        # Rows are cut and padded as every encoder's are, not by the file.
        self.package.no_padding()
        self.package.no_truncation()
        # Adds no symbol where rows are framed by us, but may move spans.
        self.package.post_processor = None
        if self.package.decoder is None:
            decoder = self._decoder(package.decoders)
            if decoder is not None:
                self.package.decoder = decoder
        self.vocab_size = max(self.package.get_vocab().values()) + 1
        most = max(len(content), _SPARSE)
        if self.vocab_size > most:
            raise UserError(
                f"{path}: wanted ids below {most} in a file of this size, "
                f"found {self.vocab_size - 1}; take another copy"
            )
        self.symbols = self._read_symbols()
        words = word_cache.word_rules(self.rules)
        rule = self.package.normalizer
        if words and words.simple_only and rule is not None:
            if not word_cache.keeps_simple(rule.normalize_str):
                words = None
        self._words = words and word_cache.WordCache(self._cut, words)

    def _decoder(self, kinds):
        """How pieces become text, where the file does not say it.

        Classes of transformers bring these rules themselves.
        """
        kind = type(self.package.model).__name__
        if kind == "Unigram":
            return kinds.Metaspace(WORD_MARK, prepend_scheme="always")
        if kind == "WordPiece":
            prefix = self.package.model.continuing_subword_prefix
            return kinds.WordPiece(prefix)
        cutter = json.dumps(self.rules.get("pre_tokenizer"))
        return kinds.ByteLevel() if "ByteLevel" in cutter else None

    def _read_symbols(self) -> symbols_lib.SymbolIds:
        symbol_ids = {
            name: -1 if (i := self.package.token_to_id(piece)) is None else i
            for name, piece in _OPTIONAL.items()
        }
        names = frames.symbol_pieces(self.rules, self.vocabulary.about)
        for name, pieces in names.items():
            ids = [self.package.token_to_id(piece) for piece in pieces]
            known = [i for i in ids if i is not None]
            if not known:
                raise UserError(
                    f"{self.path}: the special symbol {' or '.join(pieces)} is "
                    "missing; wanted the tokenizer of a BERT, an ALBERT or a "
                    "ModernBERT"
                )
            symbol_ids[name] = known[0]
        return symbols_lib.SymbolIds(**symbol_ids)

    def encode(self, text: str) -> list[int]:
        """Ids of one text, without any special symbol added."""
        return self._encode([text])[0].ids

    def encode_pieces(self, text: str) -> list[str]:
        """Pieces of one text as the file spells them."""
        return self._encode([text])[0].tokens

    def id_to_piece(self, index: int) -> str:
        """The piece of an id in 0..V-1."""
        return self.package.id_to_token(index) or ""

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids; symbols are left out."""
        return self.package.decode([int(i) for i in ids])

    def encode_with_offsets(
        self, text: str
    ) -> tuple[list[int], list[int], list[int]]:
        """`encode_spans` as lists."""
        return tuple(x.tolist() for x in self.encode_spans(text))

    def encode_batch(self, texts: Sequence[str]) -> list[np.ndarray]:
        """`encode` of many texts, int32 arrays."""
        return self._by_words(
            texts,
            lambda apart: _split(*self._words.ids(apart)),
            lambda others: [
                np.asarray(e.ids, np.int32)
                for e in self._encode(others, self.package.encode_batch_fast)
            ],
        )

    def encode_spans(
        self, text: str
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """int64 ids, and starts and ends of their characters in `text`.

        White space at the edges of a piece (BPE) is left out of its span.
        """
        return tuple(x.astype(np.int64) for x in self._cut([text])[0])

    def encode_spans_batch(
        self, texts: Sequence[str]
    ) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """`encode_spans` of many texts, int32 arrays."""
        return self._by_words(
            texts, lambda apart: _split(*self._words.spans(apart)), self._cut
        )

    def _by_words(self, texts: Sequence[str], by_words, by_texts) -> list:
        """A result per text: by words where these are apart, else as a whole."""
        if self._words is None:
            return by_texts(texts)
        apart = list(map(self._words.able, texts))
        if all(apart):
            return by_words(texts)
        some = iter(by_words(list(itertools.compress(texts, apart))))
        others = itertools.compress(texts, [not a for a in apart])
        rest = iter(by_texts(list(others)))
        return [next(some if a else rest) for a in apart]

    def _cut(
        self, texts: Sequence[str]
    ) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """`encode_spans_batch` by the package."""
        rows = []
        for text, encoding in zip(texts, self._encode(texts), strict=True):
            spans = np.asarray(encoding.offsets, np.int32).reshape(-1, 2)
            starts, ends = _without_blanks(text, spans[:, 0], spans[:, 1])
            rows.append((np.asarray(encoding.ids, np.int32), starts, ends))
        return rows

    def _encode(self, texts: Sequence[str], encode=None) -> list:
        encode = encode or self.package.encode_batch
        try:
            return encode(list(texts), add_special_tokens=False)
        # It raises nothing narrower, and where a regular expression gives up
        # what is no Exception.
        except BaseException as e:
            if not isinstance(e, Exception) and (
                type(e).__name__ != "PanicException"
            ):
                raise
            raise UserError(
                f"{self.path}: its rules cannot cut a text: {e}; take another "
                "copy"
            ) from e


def _split(values: np.ndarray, lengths: np.ndarray) -> list[np.ndarray]:
    """Cuts the last axis into parts of some lengths."""
    ends = np.cumsum(lengths).tolist()
    return [values[..., a:b] for a, b in itertools.pairwise([0, *ends])]


def _without_blanks(text: str, starts, ends):
    """int32 spans of characters without white space at their edges."""
    blank = normalization.blanks(text)
    if not blank.any():
        return starts, ends
    places = np.arange(len(text), dtype=np.int32)
    # From each place on the first character of text, and before it the end of
    # the last.
    next_text = np.append(np.where(blank, len(text), places), len(text))
    next_text = np.minimum.accumulate(next_text[::-1])[::-1]
    last_end = np.append(0, np.where(blank, 0, places + 1))
    last_end = np.maximum.accumulate(last_end)
    starts = np.minimum(next_text[starts], ends)
    ends = np.maximum(last_end[ends], starts)
    return starts.astype(np.int32), ends.astype(np.int32)


def _check_normalizers(rules) -> None:
    """What the package would do with as much memory as a file asks for.

    Raises ValueError: a table of characters says that it is longer than it is,
    or replacements make too much of one character.
    """
    waiting = [rules.get("normalizer")] if isinstance(rules, dict) else []
    growth = 1.0
    while waiting:
        one = waiting.pop()
        if isinstance(one, list):
            waiting += one
        elif isinstance(one, dict):
            waiting += one.values()
            table = one.get("precompiled_charsmap")
            raw = base64.b64decode(table) if isinstance(table, str) else b""
            if int.from_bytes(raw[:4], "little") > max(len(raw) - 4, 0):
                raise ValueError("its table of characters is cut off")
            growth *= _growth(one)
    if growth > _MOST_GROWTH:
        raise ValueError(
            f"its replacements make {growth:.3g} characters of one, at most "
            f"{_MOST_GROWTH} are read"
        )


def _growth(rule: dict) -> float:
    """Characters that a replacement makes of one, at most; 1 for other rules."""
    content, pattern = rule.get("content"), rule.get("pattern")
    if not (isinstance(content, str) and isinstance(pattern, dict)):
        return 1.0
    old = pattern.get("String")  # a regular expression may match one character
    return max(1.0, len(content) / max(1, len(old or "")))
