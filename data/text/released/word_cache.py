"""Words that a released tokenizer has cut before, so that each is cut once.

The package `tokenizers` cuts every word of every text. Where its rules look at
no more than what stands between two blanks, a text's pieces are those of its
words:

    WordPiece           "the boats,"  ->  "the"  "boats,"
    byte-level BPE      "the boats,"  ->  "the"  " boats,"
    Unigram of ALBERT   "the boats,"  ->  "the"  "boats,"
"""

import itertools
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from common.process import workers
from common.vocabularies.frames import rule_parts

# When as much is kept, all of it is dropped.
_MOST_WORDS = 1 << 18
_MOST_CHARS = 1 << 23
_TOGETHER = 256  # words that are cut in one text
# Without marks, which go along with the character before them, and control
# characters: tables drop them, and the package counts none that is dropped
# before any character stays. So all places behind them lag.
_SIMPLE = re.compile(
    "[\\t\\n\\r -~\u00a1-\u00ac\u00ae-\u024f\u2010-\u2027\u2030-\u205e]*"
)
# Normalizers that rewrite each simple character for itself.
_BY_CHARACTER = {"NFKD", "StripAccents", "Lowercase", "Precompiled", "Replace"}


class WordRules(NamedTuple):
    """How a text is made of words that are cut apart."""

    leading: bool = False  # a word takes the blank before it
    # only texts of ASCII, Latin letters and punctuation are
    simple_only: bool = False


def keeps_simple(normalize: Callable[[str], str]) -> bool:
    """Whether a normalizer drops no character of simple texts."""
    points = map(chr, range(0x2060))
    return all(map(normalize, filter(_SIMPLE.fullmatch, points)))


def word_rules(rules: dict) -> WordRules | None:
    """The rules of a `tokenizer.json`; None: its words are not cut apart."""
    model = rules["model"]
    normalizers = rule_parts(rules.get("normalizer"), "normalizers")
    kinds = {rule.get("type") for rule in normalizers}
    cutters = rule_parts(rules.get("pre_tokenizer"), "pretokenizers")
    last = cutters[-1] if cutters else {}
    path = [model.get("type"), *(cutter.get("type") for cutter in cutters)]
    if path == ["WordPiece", "BertPreTokenizer"]:
        words, able = WordRules(), kinds <= {"BertNormalizer"}
    elif path == ["BPE", "ByteLevel"]:
        words, able = WordRules(leading=True), kinds <= {"NFC"}
        able &= last.get("use_regex", True) and not model.get("dropout")
    elif path == ["Unigram", "WhitespaceSplit", "Metaspace"]:
        words, able = WordRules(simple_only=True), kinds <= _BY_CHARACTER
        # "first" looks at the place in the text.
        able &= last.get("prepend_scheme", "always") != "first"
        able &= all(map(_is_within, normalizers))
    else:
        return None
    tokens = rules.get("added_tokens") or ()
    able &= all(_is_apart(token, words.leading) for token in tokens)
    return words if able else None


def _is_within(rule: dict) -> bool:
    """Whether a normalizer replaces no text that may have a blank."""
    if rule.get("type") != "Replace":
        return True
    old = rule["pattern"].get("String")
    return bool(old) and not any(map(str.isspace, old))


def _is_apart(token: dict, leading: bool) -> bool:
    """Whether an added token is in one word alone, or in no text at all."""
    if token.get("rstrip") or token.get("single_word"):
        return False
    text = token["content"]
    # Texts with runs of blanks are not cut by words where blanks lead.
    runs = leading and len(text) > 1 and not text.strip(" ")
    return runs or not any(map(str.isspace, text))


class WordCache:
    """Pieces of texts by their words; threads may share it.

    `cut`: (ids, starts, ends) of each of some texts, as the package has them.
    """

    def __init__(self, cut: Callable[[list[str]], Iterable], rules: WordRules):
        self._cut, self._leading = cut, rules.leading
        self._simple_only = rules.simple_only
        self._lock = threading.Lock()
        self._clear()

    def _clear(self) -> None:
        self._numbers, self._chars = {"": 0}, 0
        # Word k has the columns first[k] .. first[k + 1] - 1 of the pieces:
        # id, start and end in the word.
        self._first = np.zeros(1024, np.int64)
        self._pieces = np.zeros((3, 1024), np.int32)

    def able(self, text: str) -> bool:
        """Whether a text's words are apart."""
        if not self._leading:
            if not self._simple_only:
                return True
            if text.isascii() and text.isprintable():
                return True
            return _SIMPLE.fullmatch(text) is not None
        # Other white space and runs of blanks are cut by what is around them.
        return bool(text) and text.isprintable() and "  " not in text

    def ids(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Ids of texts that are `able`.

        int32 [N], end to end; int64 [texts], how many each has.
        """
        words, counts = self._words(texts)
        with self._lock:
            columns, sizes = self._columns(words)
            return self._pieces[0][columns], _per_text(sizes, counts)

    def spans(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """`ids` with the characters of each text that they come from.

        int32 [3, N], ids, starts and ends; int64 [texts].
        """
        words, counts = self._words(texts)
        with self._lock:
            columns, sizes = self._columns(words)
            pieces = self._pieces[:, columns]
        # Where the words stand in their texts.
        chars = np.fromiter(map(len, words), np.int64, len(words))
        chars += not self._leading
        offsets = np.cumsum(chars) - chars
        offsets -= np.repeat(offsets[np.cumsum(counts) - counts], counts)
        pieces[1:] += np.repeat(offsets.astype(np.int32), sizes)
        return pieces, _per_text(sizes, counts)

    def _words(self, texts: Sequence[str]) -> tuple[list[str], np.ndarray]:
        """The words of all texts, and how many each text has."""
        if self._leading:
            rows = [t.replace(" ", "\n ").split("\n") for t in texts]
        else:
            rows = [t.split(" ") for t in texts]
        counts = np.fromiter(map(len, rows), np.int64, len(rows))
        return list(itertools.chain.from_iterable(rows)), counts

    def _columns(self, words: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """Columns of the words' pieces, and how many each word has."""
        numbers = self._numbers_of(words)
        first = self._first[numbers]
        sizes = self._first[numbers + 1] - first
        columns = np.repeat(first - (np.cumsum(sizes) - sizes), sizes)
        return columns + np.arange(len(columns)), sizes

    def _numbers_of(self, words: list[str]) -> np.ndarray:
        """Numbers of words; new ones are cut before."""
        numbers = list(map(self._numbers.get, words))
        if None in numbers:
            new = {w for w, n in zip(words, numbers, strict=True) if n is None}
            self._chars += sum(map(len, new))
            if (
                len(self._numbers) + len(new) > _MOST_WORDS
                or self._chars > _MOST_CHARS
            ):
                self._clear()
                new = set(words) - {""}
            self._add(sorted(new))
            numbers = map(self._numbers.__getitem__, words)
        return np.fromiter(numbers, np.int64, len(words))

    def _add(self, words: list[str]) -> None:
        """Cuts words, many in one text."""
        alone = []
        if self._leading:
            alone = [[w] for w in words if w[0] != " " or w == " "]
            words = [w for w in words if w[0] == " " != w]
        groups = alone + workers.split_chunks(words, _TOGETHER)
        gap = "" if self._leading else " "
        rows = self._cut([gap.join(group) for group in groups])
        for group, row in zip(groups, rows, strict=True):
            self._add_group(group, len(gap), *row)

    def _add_group(self, group: list[str], gap: int, ids, starts, ends) -> None:
        chars = np.fromiter(map(len, group), np.int64, len(group)) + gap
        offsets = np.cumsum(chars) - chars
        counts = np.diff(np.searchsorted(starts, offsets), append=len(ids))
        offsets = np.repeat(offsets, counts)
        number, stop = len(self._numbers), len(self._numbers) + len(group)
        first = int(self._first[number])
        last = first + len(ids)
        while stop >= len(self._first):
            self._first = _doubled(self._first)
        while last > self._pieces.shape[1]:
            self._pieces = _doubled(self._pieces)
        self._pieces[:, first:last] = ids, starts - offsets, ends - offsets
        self._first[number + 1 : stop + 1] = first + np.cumsum(counts)
        self._numbers.update(zip(group, range(number, stop), strict=True))


def _per_text(sizes: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Pieces per text, of those per word and the words per text."""
    stops = np.append(0, np.cumsum(sizes))
    return np.diff(stops[np.cumsum(counts)], prepend=0)


def _doubled(table: np.ndarray) -> np.ndarray:
    return np.concatenate([table, np.zeros_like(table)], axis=-1)
