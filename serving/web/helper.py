"""A process beside the server for large requests and large answers.

Reading a megabyte of JSON and writing as many numbers is Python's work: in the
server's process it would hold up every other caller, in a thread, too. It goes
on at lower priority, one piece of work after another.
"""

import asyncio
import concurrent.futures
import os
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool

from common import workers
from serving.web.scheduler import Overloaded

_MOST_WAITING = 64  # pieces of work; each holds a body of at most its bound
_NICENESS = 5


class Helper:
    """Starts with its first work; ends with the server."""

    def __init__(self):
        self._pool: concurrent.futures.ProcessPoolExecutor | None = None
        self._waiting = 0

    async def run(self, function: Callable, *arguments):
        """`function(*arguments)`; both and the result can be pickled.

        Raises:
          Overloaded: too much is waiting, or the process was killed. What the
            function raises is raised, too.
        """
        if self._waiting >= _MOST_WAITING:
            raise Overloaded
        if self._pool is None:
            self._pool = workers.open_pool(1, os.nice, (_NICENESS,))
        pool = self._pool
        loop = asyncio.get_running_loop()
        self._waiting += 1
        try:
            return await loop.run_in_executor(pool, function, *arguments)
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
