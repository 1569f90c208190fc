"""Text normalisation, equal to the original's, with exact alignment (L1).

    raw -> white space -> quotes -> NFKD without combining marks -> lower case

Every rewriting acts on one character at a time but for the white-space runs,
the quotes and the final sigma, so each output character has one span of raw
characters: `align` gives it. (NFKD reorders combining marks only, and all of
them are dropped, so taking it character by character changes nothing.)
"""

import dataclasses
import functools
import re
import sys
import unicodedata

import numpy as np

# The Unicode version that the rules come from; stored in data manifests.
UNICODE_VERSION = unicodedata.unidata_version
_QUOTES = re.compile("``|''")
_SPACES = re.compile(r"\s+")  # the white space that `str.split` drops


_FIRST_COMBINING = 0x300


@functools.lru_cache(maxsize=1)
def _combining() -> np.ndarray:
    """bool [0x110000]: characters with a combining class, by `unicodedata`."""
    return np.asarray(
        [unicodedata.combining(chr(p)) > 0 for p in range(sys.maxunicode + 1)]
    )


def _drop_combining(text: str) -> str:
    """Without combining marks; in numpy, as text of some languages is full."""
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
    if not len(points) or points.max() < _FIRST_COMBINING:
        return text
    marks = _combining()[points]
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

    Args:
      text: raw text.
      uncased: lower-case it, as the last step.
      keep_accents: skip NFKD and the removal of combining marks.
      remove_space: strip, and make one space of each run of white space.

    Returns:
      The normalised text; `normalise("\\tSão  ``Paulo''")` is `Sao "Paulo"`.
    """
    if remove_space:
        text = " ".join(text.split())
    text = text.replace("``", '"').replace("''", '"')
    if not keep_accents and not text.isascii():
        text = _drop_combining(unicodedata.normalize("NFKD", text))
    return text.lower() if uncased else text


@dataclasses.dataclass(frozen=True)
class Aligned:
    """Normalised text and where each of its characters comes from.

    Attributes:
      text: as `normalise` gives it.
      starts: int64 [len(text)], first raw character of each.
      ends: int64 [len(text)], one past the last raw character. Characters that
        came from one raw character share its span; a combining mark that was
        dropped belongs to the character before it.
    """

    text: str
    starts: np.ndarray
    ends: np.ndarray


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
        aligned = _each(aligned, _decompose)
    if uncased:
        aligned = _lower(aligned)
    return aligned


def _substitute(aligned: Aligned, pattern, new: str) -> Aligned:
    """Each match becomes the one character `new` that spans the match."""
    spans = [m.span() for m in pattern.finditer(aligned.text)]
    if not spans:
        return aligned
    text, place = [], 0
    keep = np.ones(len(aligned.text), bool)
    ends = aligned.ends.copy()
    for start, end in spans:
        text += (aligned.text[place:start], new)
        keep[start + 1 : end] = False
        ends[start] = aligned.ends[end - 1]
        place = end
    text.append(aligned.text[place:])
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


def _each(aligned: Aligned, rewrite) -> Aligned:
    """Rewrites character by character; a dropped one joins its left one."""
    parts = [rewrite(c) for c in aligned.text]
    lengths = np.fromiter(map(len, parts), np.int64, len(parts))
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
