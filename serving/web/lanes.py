"""Lanes: in which order rows run, and the threads that run a model.

How long a row waits and why is part of the contract of `scheduler`.

A request that weighs more than four full rows goes to the costly lane, all
others to the quick one. Each lane has a thread, so a costly run holds up no
quick one; as both use all cores, each waits for short runs of the other. For
two seconds after a quick request the costly lane runs slices of one full row
at most, and rests after each.

A request is due when it has waited 10 times what its rows take until then:
small ones go first, large ones wait but do not starve. Then come those of the
same signature, shape and about the same length, as many rows as fit; a request
of more rows than fit is answered in several runs, unless it is to run whole. If
a run of several requests fails, each runs again alone.
"""

import asyncio
import collections
import contextlib
import dataclasses
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from common.process import heap
from serving.options import ServerOptions
from serving.saved_model import Stop
from serving.web.workers import Overloaded, Worker

_PATIENCE = 10.0  # times what a request takes: then it is due
_REMEMBERED = 0.9  # share of the earlier runs in the time of a token
_QUICK_ROWS = 4  # rows of full length that one may ask for in the quick lane
_NEIGHBOUR_SECONDS = 2.0
_REST = 3.0  # times a slice
_LONGEST_REST = 0.2  # seconds; a slice begun without neighbours may be long
_REST_SHARE = 0.5  # of `timeout_s`
_SHORT_RUN = 0.02  # seconds of the other lane's run that are waited for
_LOOK_SECONDS = 0.001
_MOST_LOOKS = 100
_IDLE_SECONDS = 1.0  # then memory that costly runs have freed is given back


class Runs(NamedTuple):
    """How rows run through a model."""

    # (signature, rows, stop) -> output of each row; called in a lane's thread,
    # by both threads at once
    run: Callable[[str, list[dict], Stop], list]
    tokens: int = 16_384  # of a run, rows times the longest of them
    row_weight: int = 512  # of a row of full length


@dataclasses.dataclass(eq=False)
class _Job:
    key: tuple  # its signature, and what its neighbours must share
    rows: list[dict]
    tokens: int  # of its longest row
    weight: int  # of its longest row: its time, in tokens
    future: asyncio.Future
    arrival: float
    whole: bool = False  # its rows run together
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


class _Lane:
    """Requests that wait, those that run, and the thread."""

    def __init__(self, name: str):
        self.jobs: collections.deque[_Job] = collections.deque()
        self.wake = asyncio.Event()
        self.running: tuple[list[_Part], Stop] | None = None
        self.token_seconds = 0.0
        self.grown = False  # its runs have freed memory that the process holds
        self.last_used = -float("inf")
        self.worker = Worker(name)

    @property
    def waiting(self) -> int:
        return sum(job.left for job in self.jobs)

    def stop_if_unwanted(self) -> None:
        if self.running is None:
            return
        parts, stop = self.running
        if all(part.job.future.done() for part in parts):
            stop.request()

    def cancel(self) -> None:
        """Of whoever waits; the present run is told to stop."""
        running = [part.job for part in self.running[0]] if self.running else []
        for job in [*self.jobs, *running]:
            job.future.cancel()
        self.stop_if_unwanted()
        self.worker.stop()

    def take(self, most_rows: int, tokens: int, most: int) -> list[_Part]:
        """Rows of the job that is due first and of those like it that fit."""
        parts: list[_Part] = []
        rest: collections.deque[_Job] = collections.deque()
        rows, longest, weight = 0, 1, 0
        for job in sorted(
            self.jobs, key=lambda job: job.due(self.token_seconds)
        ):
            if job.future.done():
                continue
            room = 0
            if not parts or job.key == parts[0].job.key:
                length = max(longest, job.tokens)
                fits = min(most_rows, tokens // length) - rows
                fits = min(fits, (most - weight) // job.weight)
                room = min(job.left, fits if parts else max(fits, 1))
                if job.whole:
                    room = 0 if parts else job.left
            if room < 1:
                rest.append(job)
                continue
            parts.append(_Part(job, job.rows[job.taken : job.taken + room]))
            job.taken += room
            rows, longest = rows + room, length
            weight += room * job.weight
        self.jobs = rest
        return parts

    def settle(self, parts: list[_Part]) -> None:
        """After a run: whole answers are given, others go on waiting."""
        for job in (part.job for part in parts):
            if job.future.done():
                continue
            if job.left:
                self.jobs.append(job)
            else:
                job.future.set_result(job.outputs)

    def note(self, seconds: float, parts: list[_Part]) -> None:
        """Learns the time of a token from a run."""
        weight = sum(part.job.weight * len(part.rows) for part in parts)
        self.token_seconds += (1 - _REMEMBERED) * (
            seconds / weight - self.token_seconds
        )


class Lanes:
    """Both lanes of one version of the model. Needs a running event loop."""

    def __init__(
        self,
        runs: Runs,
        options: ServerOptions,
        observe: Callable[[int], None] = lambda rows: None,
    ):
        self._runs = runs
        self._options = options
        self._observe = observe
        # of the heaviest request in the quick lane
        self.quick_weight = min(_QUICK_ROWS * runs.row_weight, runs.tokens)
        self.quick, self.costly = _Lane("quick"), _Lane("costly")
        self._lanes = (self.quick, self.costly)
        self._tasks = [
            asyncio.create_task(self._work(*lanes))
            for lanes in (self._lanes, self._lanes[::-1])
        ]

    async def stop(self) -> None:
        """What runs or waits is cancelled."""
        for lane in self._lanes:
            lane.cancel()
        for task in self._tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    @property
    def waiting(self) -> int:
        """Rows in the queues."""
        return sum(lane.waiting for lane in self._lanes)

    @property
    def working(self) -> bool:
        """Whether a thread still runs the model."""
        return any(lane.worker.busy_seconds for lane in self._lanes)

    def stuck(self) -> str:
        """Why the process had better be started again, or ""."""
        if any(task.done() for task in self._tasks):
            return "a lane has ended"
        for lane in self._lanes:
            busy = lane.worker.busy_seconds
            if busy > 2 * self._options.timeout_s:
                return f"the {lane.worker.name} run has taken {busy:.0f} s"
        return ""

    def crowded(self) -> str:
        """Why requests had better go elsewhere, or ""."""
        if self.quick.waiting >= self._options.max_queue:
            return "too many requests are waiting"
        busy = self.quick.worker.busy_seconds
        if busy > self._options.timeout_s:
            return f"the present run has taken {busy:.0f} s"
        return ""

    async def submit(
        self,
        signature: str,
        rows: list[dict],
        tokens: int = 1,
        weight: int = 1,
        alone: bool = False,
        whole: bool = False,
    ) -> list:
        """The outputs of `rows`; who cancels the call stops the work.

        `weight` is the time of the longest row, as that of so many tokens;
        alone, no other request's rows are in its runs; whole, all of its rows
        are in one run, however many. Raises Overloaded: the queue is full.
        """
        dear = weight * len(rows) > self.quick_weight
        lane = self.costly if dear else self.quick
        # One request of more rows than may wait is not turned away for ever.
        waiting = lane.waiting
        if waiting and waiting + len(rows) > self._options.max_queue:
            raise Overloaded
        future = asyncio.get_running_loop().create_future()
        # Short rows neither wait for long ones nor are padded to them.
        shapes = sorted((name, np.shape(v)) for name, v in rows[0].items())
        key = (signature, weight.bit_length() // 2, *shapes)
        if alone:
            key = (*key, future)
        lane.last_used = time.monotonic()
        job = _Job(key, rows, tokens, weight, future, lane.last_used, whole)
        lane.jobs.append(job)
        lane.wake.set()
        try:
            return await future
        except asyncio.CancelledError:  # timed out, or the client is gone
            if job in lane.jobs:
                lane.jobs.remove(job)
            lane.stop_if_unwanted()
            raise

    async def _work(self, lane: _Lane, other: _Lane) -> None:
        rows, tokens = self._options.max_batch_size, self._runs.tokens
        while True:
            while not lane.jobs:
                await self._wait(lane)
            if lane.waiting < rows:
                await asyncio.sleep(self._options.max_wait_ms / 1000.0)
            await self._let_end(other)
            parts = lane.take(rows, tokens, self._most(lane))
            if not parts:
                continue
            begin = time.monotonic()
            await self._answer(lane, parts)
            lane.settle(parts)
            if lane is self.costly:
                lane.grown = True
                await asyncio.sleep(self._rest(time.monotonic() - begin))

    async def _wait(self, lane: _Lane) -> None:
        """Until a request comes, or the lane has given memory back."""
        lane.wake.clear()
        try:
            async with asyncio.timeout(_IDLE_SECONDS if lane.grown else None):
                await lane.wake.wait()
        except TimeoutError:
            lane.grown = False
            await lane.worker.run(heap.trim)

    async def _let_end(self, other: _Lane) -> None:
        """Waits for the end of the other lane's run, if it is a short one.

        A run uses all cores: two at once take longer than one after the other.
        """
        for _ in range(_MOST_LOOKS):
            if not 0.0 < other.worker.busy_seconds < _SHORT_RUN:
                return
            await asyncio.sleep(_LOOK_SECONDS)

    def _most(self, lane: _Lane) -> int:
        """The weight of a lane's next run."""
        if lane is self.costly and self._has_neighbours:
            return self._runs.row_weight
        return self._runs.tokens

    def _rest(self, seconds: float) -> float:
        """How long the costly lane pauses after a slice of `seconds`.

        While quick requests come it takes a quarter of the time, more only
        where slices are long.
        """
        now = time.monotonic()
        arrivals = (job.arrival for job in self.costly.jobs)
        waited = max((now - arrival for arrival in arrivals), default=0.0)
        late = waited > _REST_SHARE * self._options.timeout_s
        if late or not self._has_neighbours:
            return 0.0
        return min(_REST * seconds, _LONGEST_REST)

    @property
    def _has_neighbours(self) -> bool:
        """Whether quick requests came of late."""
        idle = time.monotonic() - self.quick.last_used
        return idle <= _NEIGHBOUR_SECONDS

    async def _answer(self, lane: _Lane, parts: list[_Part]) -> None:
        """Runs the parts; outputs and errors go to their jobs."""
        parts = [p for p in parts if not p.job.future.done()]
        if not parts:
            return
        rows = [row for part in parts for row in part.rows]
        self._observe(len(rows))
        stop = Stop()
        lane.running = (parts, stop)
        begin = time.monotonic()
        try:
            outputs = await lane.worker.run(
                self._runs.run, parts[0].job.key[0], rows, stop
            )
        except Exception as e:
            lane.running = None
            if len(parts) > 1:
                # One bad request must not spoil its neighbours.
                for part in parts:
                    await self._answer(lane, [part])
            elif not parts[0].job.future.done():
                parts[0].job.future.set_exception(e)
            return
        lane.running = None
        lane.note(time.monotonic() - begin, parts)
        at = 0
        for part in parts:
            part.job.outputs += outputs[at : at + len(part.rows)]
            at += len(part.rows)
