"""Text normalisation, equal to the original's, with exact alignment.

    raw -> white space -> quotes -> NFKD without combining marks -> lower case

Every rewriting acts on one character at a time but for the white-space runs,
the quotes and the final sigma, so each output character has one span of raw
characters: `align` gives it. (NFKD reorders combining marks only, and all of
them are dropped, so taking it character by character changes nothing.)

`unicodedata.normalize` sorts a run of combining marks by insertion: 50,000 of
them take it seconds. `unicode_form` gives its result in linear time.
"""

import dataclasses
import functools
import itertools
import re
import sys
import unicodedata
from collections.abc import Iterable

import numpy as np

# The Unicode version that the rules come from; stored in data manifests.
UNICODE_VERSION = unicodedata.unidata_version
_QUOTES = re.compile("``|''")
# White space that `str.split` drops, where it is no single " " already.
_SPACES = re.compile(r"\s{2,}|[^\S ]")


_FIRST_COMBINING = 0x300
_LONG_RUN = 32  # characters of no starter that are sorted by insertion


@functools.lru_cache(maxsize=1)
def _marks() -> np.ndarray:
    """bool [0x110000]: what NFKD makes combining marks of and nothing else.

    Five such characters have no combining class themselves, as U+0F73.
    """
    marks = np.zeros(sys.maxunicode + 1, bool)
    # The other planes have none, and take most of the time.
    for plane in (0, 1, 14):
        points = range(plane << 16, plane + 1 << 16)
        marks[points.start : points.stop] = [
            unicodedata.combining(c) > 0
            or bool(unicodedata.decomposition(c))
            and not _decompose(c)
            for c in map(chr, points)
        ]
    return marks


@functools.lru_cache(maxsize=1)
def _sizes() -> np.ndarray:
    """uint8 [0x110000]: how many characters NFKD makes of each, at most."""
    sizes = np.ones(sys.maxunicode + 1, np.uint8)
    sizes[0xAC00:0xD7A4] = 3  # Hangul
    for point in range(sys.maxunicode + 1):
        if unicodedata.decomposition(chr(point)):
            sizes[point] = len(unicodedata.normalize("NFKD", chr(point)))
    return sizes


def _points(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")


@functools.lru_cache(maxsize=1)
def _blanks() -> np.ndarray:
    """bool: which code points are white space; the last stands for the rest."""
    return np.asarray([chr(i).isspace() for i in range(0x3002)])


def blanks(text: str) -> np.ndarray:
    """bool [len(text)]: white space, as `str.isspace` has it."""
    table = _blanks()
    return table[np.minimum(_points(text), len(table) - 1)]


def most_chars(text: str) -> int:
    """At least the length of `text` once it is normalised, at little cost."""
    return len(text) if text.isascii() else int(_sizes()[_points(text)].sum())


def unicode_form(form: str, text: str) -> str:
    """`unicodedata.normalize(form, text)` in linear time."""
    if not _has_long_run(text):
        return unicodedata.normalize(form, text)
    apart = form.replace("C", "D")
    parts = (_apart(apart, char) for char in text)
    chars = itertools.chain.from_iterable(parts)
    runs = itertools.groupby(chars, lambda c: unicodedata.combining(c) > 0)
    sort = functools.partial(sorted, key=unicodedata.combining)
    text = "".join("".join(sort(r) if marks else r) for marks, r in runs)
    return unicodedata.normalize(form, text)


@functools.lru_cache(maxsize=65536)
def _apart(form: str, char: str) -> str:
    return unicodedata.normalize(form, char)


def _has_long_run(text: str) -> bool:
    """Whether NFKD of `text` may have many marks in a row."""
    if text.isascii():
        return False
    points = _points(text)
    if len(points) <= _LONG_RUN or points.max() < _FIRST_COMBINING:
        return False
    marks = _marks()[points]
    if np.count_nonzero(marks) <= _LONG_RUN:
        return False
    starters = np.flatnonzero(~marks)
    edges = np.concatenate([[-1], starters, [len(points)]])
    return bool(np.diff(edges).max() > _LONG_RUN)


def _drop_combining(text: str) -> str:
    """Without combining marks; in numpy, as text of some languages is full."""
    points = _points(text)
    if not len(points) or points.max() < _FIRST_COMBINING:
        return text
    marks = _marks()[points]
    if not marks.any():
        return text
    return points[~marks].tobytes().decode("utf-32-le", "surrogatepass")


def normalise(
    text: str,
    uncased: bool = False,
    keep_accents: bool = False,
    remove_space: bool = True,
) -> str:
    """The text that SentencePiece sees.

    `normalise("\\tSão  ``Paulo''")` is `Sao "Paulo"`.

    Args:
      uncased: lower-case it, as the last step.
      keep_accents: skip NFKD and the removal of combining marks.
      remove_space: strip, and make one space of each run of white space.
    """
    return normalise_all([text], uncased, keep_accents, remove_space)[0]


def normalise_all(
    texts: Iterable[str],
    uncased: bool = False,
    keep_accents: bool = False,
    remove_space: bool = True,
) -> list[str]:
    """`normalise` of many texts."""
    if remove_space:
        texts = map(_single_blanks, texts)
    texts = [text.replace("``", '"').replace("''", '"') for text in texts]
    if not keep_accents:
        odd = [i for i, text in enumerate(texts) if not text.isascii()]
        plain = _without_accents([texts[i] for i in odd])
        for i, text in zip(odd, plain, strict=True):
            texts[i] = text
    return [text.lower() for text in texts] if uncased else texts


def _single_blanks(text: str) -> str:
    """`" ".join(text.split())`."""
    # Printable text has no white space but " ".
    if "  " not in text and text.isprintable():
        return text.strip()
    return " ".join(text.split())


def _without_accents(texts: list[str]) -> list[str]:
    """NFKD of texts without combining marks; all as one text where it can be.

    "\\n" is made of no other character and stands alone in every form.
    """
    joined = "\n".join(texts)
    if joined.count("\n") == len(texts) - 1 and not _has_long_run(joined):
        joined = _drop_combining(unicodedata.normalize("NFKD", joined))
        return joined.split("\n")
    return [_drop_combining(unicode_form("NFKD", text)) for text in texts]


@dataclasses.dataclass(frozen=True)
class Aligned:
    """Normalised text and where each of its characters comes from.

    Characters that came from one raw character share its span; a combining mark
    that was dropped belongs to the character before it.
    """

    text: str  # as `normalise` gives it
    starts: np.ndarray  # int64 [len(text)], first raw character of each
    ends: np.ndarray  # int64 [len(text)], one past the last raw character


def align(
    text: str,
    uncased: bool = False,
    keep_accents: bool = False,
    remove_space: bool = True,
) -> Aligned:
    """`normalise` with the raw span of every character, in linear time."""
    places = np.arange(len(text), dtype=np.int64)
    aligned = Aligned(text, places, places + 1)
    if remove_space:
        aligned = _strip(_substitute(aligned, _SPACES, " "))
    aligned = _substitute(aligned, _QUOTES, '"')
    if not keep_accents and not aligned.text.isascii():
        aligned = _decomposed(aligned)
    if uncased:
        aligned = _lower(aligned)
    return aligned


def _substitute(aligned: Aligned, pattern, new: str) -> Aligned:
    """Each match becomes the one character `new` that spans the match."""
    spans = [m.span() for m in pattern.finditer(aligned.text)]
    if not spans:
        return aligned
    text, last = [], 0
    keep = np.ones(len(aligned.text), bool)
    ends = aligned.ends.copy()
    for start, end in spans:
        text += (aligned.text[last:start], new)
        keep[start + 1 : end] = False
        ends[start] = aligned.ends[end - 1]
        last = end
    text.append(aligned.text[last:])
    return Aligned("".join(text), aligned.starts[keep], ends[keep])


def _strip(aligned: Aligned) -> Aligned:
    start = int(aligned.text.startswith(" "))
    end = max(len(aligned.text) - int(aligned.text.endswith(" ")), start)
    return Aligned(
        aligned.text[start:end],
        aligned.starts[start:end],
        aligned.ends[start:end],
    )


@functools.lru_cache(maxsize=65536)
def _decompose(char: str) -> str:
    return "".join(
        c
        for c in unicodedata.normalize("NFKD", char)
        if not unicodedata.combining(c)
    )


def _decomposed(aligned: Aligned) -> Aligned:
    """Decomposes each character; a dropped one joins its left one."""
    parts = list(aligned.text)
    lengths = np.ones(len(parts), np.int64)
    for i in np.flatnonzero(_points(aligned.text) >= 0x80).tolist():
        parts[i] = _decompose(parts[i])
        lengths[i] = len(parts[i])
    # The end of the dropped characters that follow each kept one.
    nexts = np.where(lengths > 0, np.arange(len(parts)), len(parts))
    nexts = np.append(np.minimum.accumulate(nexts[::-1])[::-1], len(parts))
    ends = aligned.ends[nexts[1:] - 1] if parts else aligned.ends
    return Aligned(
        "".join(parts),
        np.repeat(aligned.starts, lengths),
        np.repeat(ends, lengths),
    )


def _lower(aligned: Aligned) -> Aligned:
    """`str.lower` on the whole text (final sigma), aligned by lengths."""
    lowered = aligned.text.lower()
    if len(lowered) == len(aligned.text):  # lower-casing never shortens
        return dataclasses.replace(aligned, text=lowered)
    lengths = [len(c.lower()) for c in aligned.text]
    return Aligned(
        lowered,
        np.repeat(aligned.starts, lengths),
        np.repeat(aligned.ends, lengths),
    )


@functools.lru_cache(maxsize=1)
def sigma_classes() -> tuple[list[int], list[int]]:
    """Cased and ignorable code points, as `str.lower`'s final-sigma rule sees.

    A capital sigma is a final one behind a cased character and before none,
    whatever ignorable ones stand between.
    """
    cased, ignorable = [], []
    for point in range(sys.maxunicode + 1):
        char = chr(point)
        if (char + "\u03a3").lower()[-1] == "\u03c2":
            cased.append(point)
        elif ("a" + char + "\u03a3").lower()[-1] == "\u03c2":
            ignorable.append(point)
    return cased, ignorable
