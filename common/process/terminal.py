"""What is printed on a terminal holds no control characters of a file.

A label, a tensor's name or a line of a text may hold what moves the cursor,
clears the screen or writes the title of the window. On a terminal such
characters are shown as Python writes them; files and pipes get what was printed.
"""

from typing import Any

from common.errors import printable

# Line ends, tabs, and the progress bar's way back to the start of its line; what
# joins letters of Persian or emoji.
_KEPT = "\n\r\t\u200c\u200d"


class Terminal:
    """A stream of text that shows control characters instead of sending them.

    Everything but `write` and `writelines` is the stream's own.
    """

    def __init__(self, stream: Any):
        self._stream = stream

    def write(self, text: str) -> int:
        """Writes the text; the number of its characters."""
        self._stream.write(printable(text, _KEPT))
        return len(text)

    def writelines(self, lines) -> None:
        """Writes each of the lines."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def guarded(stream: Any) -> Any:
    """The stream itself, or a `Terminal` around that of a terminal."""
    return Terminal(stream) if stream.isatty() else stream
