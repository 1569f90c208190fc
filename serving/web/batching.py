"""Requests that come at about the same time run as one batch.

One thread runs the model. While it is busy, requests gather; it then takes as
many rows as fit, of one signature, one shape and about one length. A request of
more rows than fit is answered in several runs. Whose turn it is: each run of a
request should begin within `_PATIENCE` times the time that its rows take until
then, so small requests go first, and large ones wait but do not starve. An
idle server waits `max_wait_ms` for company before it runs. A run that nobody
waits for any more is stopped. A lane may wait for its turn before each run and
rest after it, so that another one has the cores.
"""

import asyncio
import collections
import contextlib
import dataclasses
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import numpy as np

from common.errors import UserError
from serving.saved_model import Stop
from serving.web.worker import Worker

_PATIENCE = 10.0
_REMEMBERED = 0.9  # share of the earlier runs in the time of a token


class Overloaded(Exception):
    """Too many rows are waiting."""


class Limits(NamedTuple):
    """How much waits and how much runs at once.

    Attributes:
      rows: of a run.
      tokens: of a run, rows times the longest of them.
      slice_tokens: the weight of a run, asked for before each; None =
        `tokens`.
      rest: seconds of a run, seconds that the oldest request has waited ->
        seconds until the next run; None = 0.
      turn: awaited before each run; None = at once.
      wait_ms: how long a first row waits for others.
      queue: rows that may wait; more raise `Overloaded`.
    """

    rows: int = 32
    tokens: int = 16_384
    slice_tokens: Callable[[], int] | None = None
    rest: Callable[[float, float], float] | None = None
    turn: Callable[[], Awaitable[None]] | None = None
    wait_ms: float = 2.0
    queue: int = 1024


@dataclasses.dataclass(eq=False)
class _Job:
    key: tuple
    rows: list[dict]
    tokens: int  # of its longest row
    weight: int  # of its longest row: its time, in tokens
    future: asyncio.Future
    arrival: float
    outputs: list = dataclasses.field(default_factory=list)
    taken: int = 0  # rows that ran or run

    @property
    def left(self) -> int:
        return len(self.rows) - self.taken

    def due(self, token_seconds: float) -> float:
        """When its next row should run."""
        weight = (self.taken + 1) * self.weight
        return self.arrival + _PATIENCE * token_seconds * weight


class _Part(NamedTuple):
    job: _Job
    rows: list[dict]


class Batcher:
    """Runs rows through `run(signature, rows, stop) -> output of each row`.

    Args:
      run: called in the one worker thread.
      limits: see `Limits`.
      observe: called with the rows of every batch.
      name: of the thread.
    """

    def __init__(
        self,
        run: Callable[[str, list[dict], Stop], list],
        limits: Limits = Limits(),  # noqa: B008  a tuple
        observe: Callable[[int], None] = lambda rows: None,
        name: str = "model",
    ):
        self._run = run
        self._limits = limits
        self._observe = observe
        self._jobs: collections.deque[_Job] = collections.deque()
        self._wake = asyncio.Event()
        self._task: asyncio.Task | None = None
        self._running: tuple[list[_Part], Stop] | None = None
        self._token_seconds = 0.0
        self.last_used = -float("inf")
        self.worker = Worker(name)

    @property
    def waiting(self) -> int:
        """Rows in the queue."""
        return sum(job.left for job in self._jobs)

    def start(self) -> None:
        """Begins to work; needs a running event loop."""
        self._task = asyncio.get_running_loop().create_task(self._work())

    async def stop(self) -> None:
        """Stops; the present run and waiting requests are cancelled."""
        for job in list(self._jobs):
            job.future.cancel()
        if self._running is not None:
            for part in self._running[0]:
                part.job.future.cancel()
            self._running[1].request()
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        self.worker.stop()

    async def submit(
        self,
        signature: str,
        rows: list[dict],
        tokens: int = 1,
        weight: int = 1,
        alone: bool = False,
    ) -> list:
        """The outputs of `rows`.

        Args:
          signature: which function.
          rows: of equal shapes.
          tokens: of the longest row.
          weight: time of the longest row, as that of so many tokens.
          alone: no other request's rows in its runs.

        Raises:
          Overloaded: the queue is full.
        """
        if self.waiting + len(rows) > self._limits.queue:
            raise Overloaded
        future = asyncio.get_running_loop().create_future()
        # Short rows neither wait for long ones nor are padded to them.
        key = (signature, weight.bit_length() // 2, *_shapes(rows))
        if alone:
            key = (*key, future)
        self.last_used = time.monotonic()
        job = _Job(key, rows, tokens, weight, future, self.last_used)
        self._jobs.append(job)
        self._wake.set()
        try:
            return await future
        except asyncio.CancelledError:  # timed out, or the client is gone
            if job in self._jobs:
                self._jobs.remove(job)
            self._stop_if_unwanted()
            raise

    def _stop_if_unwanted(self) -> None:
        if self._running is None:
            return
        parts, stop = self._running
        if all(part.job.future.done() for part in parts):
            stop.request()

    async def _work(self) -> None:
        while True:
            while not self._jobs:
                self._wake.clear()
                await self._wake.wait()
            if self.waiting < self._limits.rows:
                await asyncio.sleep(self._limits.wait_ms / 1000.0)
            if self._limits.turn is not None:
                await self._limits.turn()
            parts = self._take()
            if not parts:
                continue
            begin = time.monotonic()
            await self._answer(parts)
            for part in parts:
                job = part.job
                if job.future.done():
                    continue
                if job.left:
                    self._jobs.append(job)
                else:
                    job.future.set_result(job.outputs)
            await self._rest(time.monotonic() - begin)

    async def _rest(self, seconds: float) -> None:
        """Leaves the cores to other lanes after a run of `seconds`."""
        if self._limits.rest is None:
            return
        now = time.monotonic()
        waited = max((now - job.arrival for job in self._jobs), default=0.0)
        await asyncio.sleep(self._limits.rest(seconds, waited))

    def _take(self) -> list[_Part]:
        """Rows of the job that is due first and of those like it that fit."""
        parts: list[_Part] = []
        rest: collections.deque[_Job] = collections.deque()
        limits = self._limits
        most = limits.slice_tokens() if limits.slice_tokens else limits.tokens
        rows, longest, weight = 0, 1, 0
        for job in sorted(
            self._jobs, key=lambda job: job.due(self._token_seconds)
        ):
            if job.future.done():
                continue
            room = 0
            if not parts or job.key == parts[0].job.key:
                tokens = max(longest, job.tokens)
                fits = min(limits.rows, limits.tokens // tokens) - rows
                fits = min(fits, (most - weight) // job.weight)
                room = min(job.left, fits if parts else max(fits, 1))
            if room < 1:
                rest.append(job)
                continue
            parts.append(_Part(job, job.rows[job.taken : job.taken + room]))
            job.taken += room
            rows, longest = rows + room, tokens
            weight += room * job.weight
        self._jobs = rest
        return parts

    async def _answer(self, parts: list[_Part]) -> None:
        """Runs the parts; outputs and errors go to their jobs."""
        parts = [p for p in parts if not p.job.future.done()]
        if not parts:
            return
        rows = [row for part in parts for row in part.rows]
        self._observe(len(rows))
        stop = Stop()
        self._running = (parts, stop)
        begin = time.monotonic()
        try:
            outputs = await self.worker.run(
                self._run, parts[0].job.key[0], rows, stop
            )
        except Exception as e:
            self._running = None
            if len(parts) > 1:
                # One bad request must not spoil its neighbours.
                for part in parts:
                    await self._answer([part])
            elif not parts[0].job.future.done():
                parts[0].job.future.set_exception(e)
            return
        self._running = None
        self._note(time.monotonic() - begin, parts)
        at = 0
        for part in parts:
            part.job.outputs += outputs[at : at + len(part.rows)]
            at += len(part.rows)

    def _note(self, seconds: float, parts: list[_Part]) -> None:
        """Learns the time of a token from a run."""
        weight = sum(part.job.weight * len(part.rows) for part in parts)
        self._token_seconds += (1 - _REMEMBERED) * (
            seconds / weight - self._token_seconds
        )


def _shapes(rows: list[dict]) -> tuple:
    """The shapes of a row's values; all rows must agree."""
    shapes = {
        tuple(sorted((name, np.shape(v)) for name, v in row.items()))
        for row in rows
    }
    if len(shapes) > 1:
        raise UserError("the instances differ in shape: send them one by one")
    return shapes.pop()
