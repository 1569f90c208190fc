"""When the command of this process began."""

import contextlib
import time
from collections.abc import Iterator

_began: list[float] = []  # of the command that runs, if one does


def began() -> float:
    """The command's start, as `time.monotonic`; now where no command runs."""
    return _began[-1] if _began else time.monotonic()


@contextlib.contextmanager
def command() -> Iterator[None]:
    """What runs within it is a command that begins now."""
    _began.append(time.monotonic())
    try:
        yield
    finally:
        _began.pop()
