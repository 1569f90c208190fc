"""Files that a command keeps beside its output: locks, unfinished answers."""

import os
import stat
from typing import IO

from common.errors import UserError

_NOT_OWN = "{} is {}: wanted a file of this program or none; remove it"


def open_own(path: str) -> IO[bytes]:
    """Opens a local file, new or old, to be read and added to.

    A name that leads to another file is refused: whoever may write into the
    folder could have any file of this user emptied.

    Raises:
      UserError: it is a link, has a second name, or is no ordinary file.
      OSError: it cannot be opened.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
    safe = os.O_NOFOLLOW | os.O_NONBLOCK  # no link, no waiting for a pipe
    try:
        number = os.open(path, flags | safe, 0o666)
    except OSError as e:
        if not os.path.islink(path):
            raise
        raise UserError(_NOT_OWN.format(path, "a link")) from e
    found = os.fstat(number)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        os.close(number)
        what = "a link" if stat.S_ISREG(found.st_mode) else "no ordinary file"
        raise UserError(_NOT_OWN.format(path, what))
    return open(number, "a+b")
