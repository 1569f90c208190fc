"""The processes of jobs: stopped together, and never left alone."""

import contextlib
import ctypes
import os
import signal
import subprocess
import threading
from collections.abc import Iterator

from common.errors import UserError
from common.process import ending, hangup

# Only Linux has it. Looked up here: a child that was forked must not.
_PRCTL = getattr(ctypes.CDLL(None), "prctl", None)
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG


_STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Commands:
    """The commands that run now, and whether they were told to stop.

    Attributes:
      stopped: SIGTERM, Ctrl-C or the end of the terminal came; nothing new
        begins.
    """

    def __init__(self):
        self.stopped = threading.Event()
        self._signal: signal.Signals | None = None
        self._terminals: list[int] = []
        self._processes: set[subprocess.Popen] = set()

    def run(self, words: list[str], **how) -> tuple[int, float | None]:
        """Exit status and CPU seconds (`cpu_seconds`) of a command."""
        with subprocess.Popen(words, **how) as process:
            self._processes.add(process)
            try:
                if self.stopped.is_set():  # while it began
                    process.terminate()
                if hasattr(os, "waitid"):  # and leave it to be looked at
                    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
                used = cpu_seconds(process.pid)
                return process.wait(), used
            finally:
                self._processes.discard(process)

    @contextlib.contextmanager
    def until_told(self) -> Iterator[None]:
        """A signal ends the commands, and this one when they have saved.

        In a terminal Ctrl-C reaches the commands, too; elsewhere this process
        alone. A second signal kills them.

        Raises:
          UserError: SIGTERM or SIGHUP came.
          KeyboardInterrupt: Ctrl-C came.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        self._terminals = hangup.terminals()
        try:
            with ending.handled(self._stop, _STOPPING):
                yield
        finally:
            came, self._signal = self._signal, None
            self.stopped.clear()
        if came == signal.SIGINT:
            raise KeyboardInterrupt
        if came:
            raise UserError(f"stopped by {came.name}; the same command resumes")

    def _stop(self, number, frame) -> None:
        del frame
        if number == signal.SIGHUP:
            hangup.let_go(self._terminals)
        again = self.stopped.is_set()
        self._signal = self._signal or signal.Signals(number)
        self.stopped.set()
        for process in list(self._processes):
            process.kill() if again else process.terminate()


RUNNING = Commands()


def cpu_seconds(process: int) -> float | None:
    """Of a process and of those that it started and waited for.

    None where it is gone or the system has no /proc (Linux has).
    """
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8") as f:
            # Behind the name: state, ten numbers, then ticks of user and system.
            fields = f.read().rpartition(")")[2].split()
    except OSError:
        return None
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def begin(share: frozenset[int] | None) -> None:
    """In the child, before the command."""
    die_with_parent()
    if share and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, share)


def die_with_parent() -> None:
    """In the child: a runner that is killed leaves nobody who goes on alone.

    Otherwise its next start would find the output in use.
    """
    if _PRCTL is not None:
        _PRCTL(_DIE_WITH_PARENT, signal.SIGKILL)
