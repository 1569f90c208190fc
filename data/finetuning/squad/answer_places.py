"""Whether an answer's text stands where `answer_start` says.

Case, white space, accents and Unicode's ways to write one character do not
matter: the place is the same. Files made by other tools may count in other
units (bytes of UTF-8, UTF-16 as JavaScript and Java do).
"""

import unicodedata

_SHOWN = 60  # characters of a text in a message


def end_of(context: str, text: str, start: int) -> int | None:
    """One past the last character of `text` at `start`, None if it is not there.

    Args:
      start: character of the paragraph; any number.
    """
    if start < 0:
        return None
    if text and context.startswith(text, start):
        return start + len(text)
    wanted, position = "".join(map(_folded, text)), 0
    for end in range(start, len(context)):
        part = _folded(context[end])
        if not wanted.startswith(part, position):
            return None
        position += len(part)
        if position == len(wanted):
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
    if text not in context:
        return f"{what}; the paragraph holds this text nowhere"
    return f"{what}; wanted characters (code points) from 0"


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")
