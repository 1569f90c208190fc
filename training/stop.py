"""Reasons to stop between two host loops: a signal, or the time."""

import signal
import time

from common.process import clock, hangup
from training.strategy import Meeting

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class StopRequest:
    """Notes SIGTERM, Ctrl-C and a closed terminal; a second one acts as usual.

    Use as a context manager around training, which also stops after
    `max_hours` of the command, 0 = never: its trainings share them. Outside of
    a command they are each training's own. The processes of a `meeting` must all stop at the
    same step; None for one.
    """

    def __init__(self, max_hours: float, meeting: Meeting | None):
        self._deadline = clock.began() + 3600 * max_hours
        self._limited = max_hours > 0
        self._meeting = meeting
        self._signal = None
        self._answered = False
        self._old = {}
        self._terminals: list[int] = []

    def __enter__(self):
        self._terminals = hangup.terminals()
        for number in SIGNALS:
            if number == signal.SIGHUP and hangup.is_ignored():
                continue
            try:
                self._old[number] = signal.signal(number, self._note)
            except ValueError:
                pass  # not the main thread: signals stay as they are
        return self

    def __exit__(self, *unused):
        for number, handler in self._old.items():
            signal.signal(number, handler)

    def _note(self, number, frame):
        del frame
        if number == signal.SIGHUP:
            hangup.let_go(self._terminals)
        self._signal = signal.Signals(number).name
        signal.signal(number, self._old[number])

    def reason(self) -> str | None:
        """Why to stop now, the same answer in every process; else None."""
        mine = self._signal
        if mine is None and self._limited:
            if time.monotonic() >= self._deadline:
                mine = "--max_hours is over"
        if not self.agree(mine is not None):
            return None
        self._answered = True
        return mine or "another process was told to stop"

    def pass_on(self) -> None:
        """Behind the training: a signal that did not stop it acts as usual.

        It came after the last look, in the last evaluation: what the command
        would begin next must not take its time.
        """
        if self._signal and not self._answered:
            signal.raise_signal(signal.Signals[self._signal])

    def agree(self, mine: bool) -> bool:
        """Whether any process says so, the same answer in every one."""
        if self._meeting is None:
            return mine
        return self._meeting.total(1.0 if mine else 0.0) > 0
