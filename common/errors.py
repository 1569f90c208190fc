"""The one exception that users see as a single line."""


def printable(text: str) -> str:
    """A text whose control characters are written as Python writes them.

    A name out of a file may hold a line break or what moves a terminal's
    cursor.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


class UserError(Exception):
    """Bad input, flag, file or checkpoint.

    The message says what was expected, what was found and how to fix it, and
    names the file and the line or record. Commands print it without a stack
    trace and exit with status 1 (`flags.app.run`).

    Args:
      message: one line; its control characters are escaped.
    """

    def __init__(self, message: object = ""):
        super().__init__(printable(str(message)))
