"""One thread that runs a model, and a way to stop what it runs.

A pool of `concurrent.futures` is joined when Python ends: a run of minutes
would keep the process alive for as long. This thread is a daemon.
"""

import asyncio
import queue
import threading
import time
from collections.abc import Callable


class Worker:
    """Runs calls one after another; results go to asyncio futures."""

    def __init__(self, name: str):
        self.name = name
        self._calls: queue.SimpleQueue = queue.SimpleQueue()
        self._since: float | None = None
        self._thread = threading.Thread(
            target=self._work, name=name, daemon=True
        )
        self._thread.start()

    @property
    def alive(self) -> bool:
        """The thread still takes calls."""
        return self._thread.is_alive()

    @property
    def busy_seconds(self) -> float:
        """How long the present call has been running; 0 = idle."""
        since = self._since
        return 0.0 if since is None else time.monotonic() - since

    async def run(self, call: Callable, *arguments):
        """The result of `call(*arguments)` in the thread."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self._calls.put((call, arguments, loop, future))
        return await future

    def stop(self) -> None:
        """Ends the thread after the present call, without waiting."""
        self._calls.put(None)

    def _work(self) -> None:
        while (item := self._calls.get()) is not None:
            call, arguments, loop, future = item
            self._since = time.monotonic()
            try:
                result, error = call(*arguments), None
            except Exception as e:
                result, error = None, e
            self._since = None
            try:
                loop.call_soon_threadsafe(_settle, future, result, error)
            except RuntimeError:  # the loop ended first
                return


def _settle(future: asyncio.Future, result, error) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
