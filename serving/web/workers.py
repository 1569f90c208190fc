"""One thread that runs a model, and one process for large bodies.

Python waits for such a thread when it ends. A run may take minutes, so a server
ends without it (`transport.listen`).

Reading a megabyte of JSON and writing as many numbers is Python's work: in the
server's process it would hold up every other caller, in a thread, too. The
helper does it at lower priority, one piece of work after another.
"""

import asyncio
import concurrent.futures
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures.process import BrokenProcessPool

from common.process import heap, workers

_MOST_WAITING = 64  # pieces of work; each holds a body of at most its bound
_NICENESS = 5
# They reach the helper, too, which the requests that have begun still need.
_OF_GROUPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Overloaded(Exception):
    """Too much is waiting."""


@contextlib.asynccontextmanager
async def beside(work: Coroutine) -> AsyncIterator[None]:
    """Runs `work` while the block runs."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


class Worker:
    """Runs calls one after another, in a thread of its own."""

    def __init__(self, name: str):
        self.name = name
        self._since: float | None = None
        self._pool = concurrent.futures.ThreadPoolExecutor(1, name)

    @property
    def busy_seconds(self) -> float:
        """How long the present call has been running; 0 = idle."""
        since = self._since
        return 0.0 if since is None else time.monotonic() - since

    async def run(self, call: Callable, *arguments):
        """The result of `call(*arguments)` in the thread."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._pool, self._timed, call, *arguments
        )

    def stop(self) -> None:
        """Ends the thread after the present call, without waiting."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _timed(self, call: Callable, *arguments):
        self._since = time.monotonic()
        try:
            return call(*arguments)
        finally:
            self._since = None


class Helper:
    """Starts with its first work; ends with the server."""

    def __init__(self):
        self._pool: concurrent.futures.ProcessPoolExecutor | None = None
        self._waiting = 0

    async def run(self, function: Callable, *arguments):
        """`function(*arguments)`; both and the result can be pickled.

        Raises what it raises; Overloaded: too much is waiting, or the process
        was killed.
        """
        if self._waiting >= _MOST_WAITING:
            raise Overloaded
        if self._pool is None:
            self._pool = workers.open_pool(1, os.nice, (_NICENESS,))
        pool = self._pool
        loop = asyncio.get_running_loop()
        self._waiting += 1
        try:
            with workers.without_signals(*_OF_GROUPS):
                work = loop.run_in_executor(pool, _do, function, *arguments)
            return await work
        except BrokenProcessPool as e:
            if pool is self._pool:
                self._pool = None
            raise Overloaded from e
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """Ends the process after its present work, without waiting."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None


def _do(function: Callable, *arguments):
    """In the helper; what a megabyte of JSON took is given back."""
    try:
        return function(*arguments)
    finally:
        heap.trim()
