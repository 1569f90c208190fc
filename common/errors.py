"""What users see as a single line: a fault, or a stop on request."""

import signal
import unicodedata

# EX_TEMPFAIL of sysexits.h: the same command, later, goes on.
TRY_AGAIN = 75


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


class Stopped(Exception):
    """A training that stopped on request before its last step.

    Its state is saved, the user has been told, and the same command resumes.
    Commands exit with `status` (`flags.app.run`), so that a script does not go
    on with weights that are half trained.

    Attributes:
      reason: the name of a signal, or else a text.
      status: 128 + n after the signal n, as shells report it; otherwise 75.
    """

    def __init__(self, reason: str):
        super().__init__(reason)
        self.reason = reason
        number = getattr(signal.Signals, reason, None)
        self.status = TRY_AGAIN if number is None else 128 + number
