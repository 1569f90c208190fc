"""A terminal that closes (SIGHUP): work is saved, not cut off."""

import os
import signal


def is_ignored() -> bool:
    """Whether SIGHUP is to be ignored, as under `nohup`."""
    return signal.getsignal(signal.SIGHUP) == signal.SIG_IGN


def terminals() -> list[int]:
    """Which of standard output and error are a terminal, while it is there."""
    return [number for number in (1, 2) if os.isatty(number)]


def let_go(numbers: list[int]) -> None:
    """What is written to a closed terminal goes nowhere.

    Else the next line of the report would fail, before anything is saved.
    """
    for number in numbers:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, number)
        os.close(null)
