"""Requests that come at about the same time run as one batch.

One thread runs the model. While it is busy, requests gather; it then takes as
many rows as fit, of one signature and one shape. An idle server waits
`max_wait_ms` for company before it runs.
"""

import asyncio
import collections
import concurrent.futures
import contextlib
import dataclasses
from collections.abc import Callable

import numpy as np

from common.errors import UserError


class Overloaded(Exception):
    """Too many rows are waiting."""


@dataclasses.dataclass(frozen=True, eq=False)
class _Job:
    key: tuple
    rows: list[dict]
    future: asyncio.Future


class Batcher:
    """Runs rows through `run(signature, rows) -> outputs of each row`.

    Args:
      run: called in the one worker thread.
      max_batch_size: rows of a batch.
      max_wait_ms: how long a first row waits for others.
      max_queue: rows that may wait; more raise `Overloaded`.
      observe: called with the rows of every batch.
    """

    def __init__(
        self,
        run: Callable[[str, list[dict]], list[dict]],
        max_batch_size: int = 32,
        max_wait_ms: float = 2.0,
        max_queue: int = 1024,
        observe: Callable[[int], None] = lambda rows: None,
    ):
        self._run = run
        self._max_batch_size = max_batch_size
        self._max_wait = max_wait_ms / 1000.0
        self._max_queue = max_queue
        self._observe = observe
        self._jobs: collections.deque[_Job] = collections.deque()
        self._waiting = 0
        self._wake = asyncio.Event()
        self._task: asyncio.Task | None = None
        self._pool = concurrent.futures.ThreadPoolExecutor(1, "model")

    @property
    def waiting(self) -> int:
        """Rows in the queue."""
        return self._waiting

    def start(self) -> None:
        """Begins to work; needs a running event loop."""
        self._task = asyncio.get_running_loop().create_task(self._work())

    async def stop(self) -> None:
        """Stops after the running batch; waiting requests are cancelled."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        for job in self._jobs:
            job.future.cancel()
        self._pool.shutdown(wait=True)

    async def submit(self, signature: str, rows: list[dict]) -> list[dict]:
        """The outputs of `rows`, which travel in one batch.

        Raises:
          Overloaded: the queue is full.
        """
        if self._waiting + len(rows) > self._max_queue:
            raise Overloaded
        key = (signature, *_shapes(rows))
        future = asyncio.get_running_loop().create_future()
        job = _Job(key, rows, future)
        self._jobs.append(job)
        self._waiting += len(rows)
        self._wake.set()
        try:
            return await future
        except asyncio.CancelledError:  # timed out, or the client is gone
            if job in self._jobs:
                self._jobs.remove(job)
                self._waiting -= len(rows)
            raise

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            while not self._jobs:
                self._wake.clear()
                await self._wake.wait()
            if self._waiting < self._max_batch_size:
                await asyncio.sleep(self._max_wait)
            jobs = self._take()
            if jobs:
                await self._answer(loop, jobs)

    def _take(self) -> list[_Job]:
        """The oldest job and those like it that fit, in order."""
        taken: list[_Job] = []
        rest: collections.deque[_Job] = collections.deque()
        size = 0
        for job in self._jobs:
            like = not taken or job.key == taken[0].key
            fits = not taken or size + len(job.rows) <= self._max_batch_size
            if like and fits:
                taken.append(job)
                size += len(job.rows)
            else:
                rest.append(job)
        self._jobs = rest
        self._waiting -= size
        return taken

    async def _answer(self, loop, jobs: list[_Job]) -> None:
        rows = [row for job in jobs for row in job.rows]
        self._observe(len(rows))
        try:
            outputs = await loop.run_in_executor(
                self._pool, self._run, jobs[0].key[0], rows
            )
        except Exception as e:
            if len(jobs) > 1:
                # One bad request must not spoil its neighbours.
                for job in jobs:
                    await self._answer(loop, [job])
            elif not jobs[0].future.done():
                jobs[0].future.set_exception(e)
            return
        at = 0
        for job in jobs:
            if not job.future.done():
                job.future.set_result(outputs[at : at + len(job.rows)])
            at += len(job.rows)


def _shapes(rows: list[dict]) -> tuple:
    """The shapes of a row's values; all rows must agree."""
    shapes = {
        tuple(sorted((name, np.shape(v)) for name, v in row.items()))
        for row in rows
    }
    if len(shapes) > 1:
        raise UserError("the instances differ in shape: send them one by one")
    return shapes.pop()
