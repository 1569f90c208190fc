"""SIGTERM and a closed terminal end a command as Ctrl-C does.

What is half made is removed and processes that were started end. By default a
signal ends the process where it stands: temporary files and folders stay.
"""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterable, Iterator

from common.process import hangup

_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


class Ended(KeyboardInterrupt):
    """One of these signals came.

    Attributes:
      status: the exit status that shells give to a process that it ended.
    """

    def __init__(self, number: int):
        super().__init__(signal.Signals(number).name)
        self.status = 128 + number


def watch() -> None:
    """From now on either signal raises `Ended`; a second one kills.

    A signal that has a handler, or is ignored as under `nohup`, keeps it.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    terminals = hangup.terminals()

    def end(number, frame) -> None:
        del frame
        signal.signal(number, signal.SIG_DFL)
        if number == signal.SIGHUP:
            hangup.let_go(terminals)
        raise Ended(number)

    for number in _SIGNALS:
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, end)


@contextlib.contextmanager
def at_once() -> Iterator[None]:
    """In the block a signal, Ctrl-C too, ends the process where it stands.

    For a long call of a library that holds the interpreter: a handler would
    wait for its end.
    """
    with handled(signal.SIG_DFL, (signal.SIGINT, *_SIGNALS)):
        yield


@contextlib.contextmanager
def handled(
    handler: Callable | signal.Handlers, numbers: Iterable[int]
) -> Iterator[None]:
    """In the block the handler has these signals; not those that are ignored.

    Signals are ignored under `nohup`. Other threads than the first set none.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    old = {
        number: signal.signal(number, handler)
        for number in numbers
        if signal.getsignal(number) != signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
