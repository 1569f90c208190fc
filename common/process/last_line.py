"""What a command that failed ended with, in one line (L0)."""

import signal


def of(status: int, said: str) -> str:
    """The last line of what it said, behind the signal if one ended it.

    A killed process says nothing of its end: its last line is of before.
    """
    lines = said.strip().splitlines()
    last = lines[-1] if lines else "no message"
    if status >= 0:
        return last
    why = " (out of memory?)" if -status == signal.SIGKILL else ""
    return f"ended by {_name(-status)}{why}, its last line: {last}"


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # of real time
        return f"signal {number}"
