"""The one exception that users see as a single line."""

import unicodedata


def printable(text: str, kept: str = "") -> str:
    """A text whose control characters are written as Python writes them.

    A name out of a file may hold a line break or what moves a terminal's
    cursor. Letters, marks, numbers, signs and blanks of any width stay.
    """
    if text.isprintable():
        return text
    return "".join(
        c
        if c.isprintable() or c in kept or unicodedata.category(c) == "Zs"
        else repr(c)[1:-1]
        for c in text
    )


class UserError(Exception):
    """Bad input, flag, file or checkpoint.

    The message says what was expected, what was found and how to fix it, and
    names the file and the line or record. Commands print it without a stack
    trace and exit with status 1 (`flags.app.run`).

    Its text is one line: control characters are escaped. (`__init__` stays
    Python's, so that TensorFlow can raise the same exception out of a graph.)
    """

    def __str__(self) -> str:
        return printable(super().__str__())
