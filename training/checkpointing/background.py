"""One piece of work beside the training, at most."""

import contextlib
from collections.abc import Callable
from concurrent import futures


class Background:
    """Runs one function at a time in a thread."""

    def __init__(self):
        self._pool = futures.ThreadPoolExecutor(1, "save")
        self._running = None

    def start(self, work: Callable[[], None]) -> None:
        """Begins `work`; the one before must have been waited for."""
        if self._running is not None:
            raise RuntimeError("two at a time")
        self._running = self._pool.submit(work)

    @property
    def busy(self) -> bool:
        """Whether there is work that nobody has waited for."""
        return self._running is not None

    def check(self) -> None:
        """Raises what the work has raised so far."""
        if self._running and self._running.done():
            self._running.result()

    def wait(self) -> None:
        """Until the work is done; raises what it raised."""
        running, self._running = self._running, None
        if running:
            running.result()

    def close(self, seconds: float | None = None) -> bool:
        """Waits without raising; False = it takes longer than `seconds`."""
        if self._running:
            with contextlib.suppress(Exception):
                futures.wait([self._running], seconds)
            if not self._running.done():
                return False
            self._running = None
        self._pool.shutdown(wait=False)
        return True
