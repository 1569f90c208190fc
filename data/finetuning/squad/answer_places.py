"""Whether an answer's text stands where `answer_start` says, and if not, why.

Case, white space, accents and Unicode's ways to write one character do not
matter: the place is the same. Files made by other tools count in other units
(bytes of UTF-8, UTF-16 as JavaScript and Java do); their answers would be other
words, in paragraphs that are not ASCII alone.
"""

import unicodedata
from collections.abc import Iterator

from data.text.normalization import unicode_form

_SHOWN = 60  # characters of a text in a message


def end_of(context: str, text: str, start: int) -> int | None:
    """One past the last character of `text` at `start`; None: not there."""
    if start < 0:
        return None
    if text and context.startswith(text, start):
        return start + len(text)
    wanted, matched = "".join(map(_folded, text)), 0
    for end in range(start, len(context)):
        part = _folded(context[end])
        if not wanted.startswith(part, matched):
            return None
        matched += len(part)
        if matched == len(wanted):
            return end + 1 if wanted else None
    return None


def _folded(char: str) -> str:
    """What is compared of a character: "" for space, marks and joiners."""
    kept = (
        c
        for c in unicodedata.normalize("NFKD", char)
        if not (
            c.isspace()
            or unicodedata.combining(c)
            or unicodedata.category(c) == "Cf"
        )
    )
    return "".join(kept).casefold()


def problem(context: str, text: str, start: int) -> str | None:
    """What is wrong with a training answer, None if nothing is."""
    if not text.strip():
        return "the answer is empty"
    if end_of(context, text, start) is not None:
        return None
    if 0 <= start <= len(context) - len(text):
        there = context[start : start + len(text)]
        what = (
            f"the answer {_shown(text)} is not at 'answer_start' {start}, "
            f"where the paragraph has {_shown(there)}"
        )
    else:
        what = (
            f"'answer_start' {start} and the answer's {len(text)} characters "
            f"do not fit the paragraph's {len(context)}"
        )
    return f"{what}; {_cause(context, text, start)}"


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")


def _cause(context: str, text: str, start: int) -> str:
    for unit, other_start in _other_counts(context, start):
        if (
            other_start != start
            and end_of(context, text, other_start) is not None
        ):
            return (
                f"it is at {other_start}: 'answer_start' seems to count {unit}, "
                "where characters (code points) from 0 are wanted"
            )
    places = [at for at in range(len(context)) if context.startswith(text, at)]
    if not places:
        return "the paragraph holds this text nowhere"
    nearest = min(places, key=lambda at: abs(at - start))
    return f"the nearest place of this text is {nearest}"


def _other_counts(context: str, start: int) -> Iterator[tuple[str, int]]:
    """(unit, character) that `start` means where it counts such units."""
    if start < 0:
        return
    for unit, coding, size in (
        ("bytes of UTF-8", "utf-8", 1),
        ("UTF-16 units", "utf-16-le", 2),
    ):
        content = context.encode(coding, "surrogatepass")[: start * size]
        yield unit, len(content.decode(coding, "ignore"))
    for unit, form, other in (
        ("composed characters (NFC)", "NFC", "NFD"),
        ("characters and marks taken apart (NFD)", "NFD", "NFC"),
    ):
        before = unicode_form(form, context)[:start]
        yield unit, len(unicode_form(other, before))
    pairs, single = context.replace("\n", "\r\n"), context.replace("\r\n", "\n")
    yield "\\r\\n as two characters", len(pairs[:start].replace("\r\n", "\n"))
    yield (
        "\\r\\n as one character",
        len(single[:start].replace("\n", "\r\n")),
    )
    yield "from 1 (or a byte order mark)", start - 1
    if context.startswith("\ufeff"):
        yield "from behind the byte order mark", start + 1
