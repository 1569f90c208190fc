"""Costly requests and mistakes leave the machine to the others."""

import asyncio
import threading
import types

import pytest

pytest.importorskip("fastapi")

from serving.options import ServerOptions
from serving.web import lanes
from serving.web.addresses import Turns
from serving.web.scheduler import Scheduler
from serving.web.transport import guard
from serving.web.workers import Overloaded


class Clock:
    """Stands for the module `time`."""

    def __init__(self):
        self.now = 100.0

    def monotonic(self):
        return self.now


@pytest.fixture
def slept(monkeypatch):
    """Seconds of every sleep, which takes none."""
    found = []
    sleep = asyncio.sleep

    async def record(seconds):
        found.append(seconds)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", record)
    return found


def test_the_costly_lane_rests_after_each_slice(monkeypatch, slept):
    clock, events = Clock(), []
    monkeypatch.setattr(lanes, "time", clock)

    def model(signature, rows, stop):
        clock.now += 0.05
        events.append(len(rows))
        return [0] * len(rows)

    async def run():
        runs = lanes.Runs(model, row_weight=2)
        made = lanes.Lanes(runs, ServerOptions(max_wait_ms=0))
        made.quick.last_used = clock.now
        await made.submit("s", [{"a": 1}] * 5, weight=2)  # above 4 rows
        await made.submit("s", [{"a": 1}] * 4, weight=2)
        await made.stop()

    asyncio.run(run())
    assert events == [1] * 5 + [4]
    assert [s for s in slept if s] == pytest.approx([0.15] * 5)


@pytest.fixture
def made():
    """Lanes that were stopped."""

    async def run():
        runs = lanes.Runs(lambda *_: [], row_weight=16)
        made = lanes.Lanes(runs, ServerOptions(timeout_s=30.0))
        await made.stop()
        return made

    return asyncio.run(run())


class Busy:
    """A worker whose run has each of these ages at a look."""

    def __init__(self, ages):
        self._ages = iter(ages)

    @property
    def busy_seconds(self):
        return next(self._ages)


@pytest.mark.parametrize(
    ("ages", "looks"),
    [
        ([0.0], 0),  # idle
        ([0.005, 0.006, 0.0], 2),  # it ends
        ([0.018, 0.019, 0.021], 2),  # it is a long one
        ([0.01] * 500, 100),  # one follows the other
    ],
)
def test_lanes_wait_for_short_runs_of_each_other(slept, ages, looks):
    def model(signature, rows, stop):
        return [0] * len(rows)

    async def run(name, other):
        made = lanes.Lanes(lanes.Runs(model), ServerOptions(max_wait_ms=0))
        made.quick_weight = 1 if name == "quick" else 0
        worker = getattr(made, other).worker
        getattr(made, other).worker = Busy(ages)
        await made.submit("s", [{"a": 1}])
        getattr(made, other).worker = worker
        await made.stop()

    for name, other in (("quick", "costly"), ("costly", "quick")):
        slept.clear()
        asyncio.run(run(name, other))
        assert [s for s in slept if s] == [0.001] * looks


def test_a_lane_takes_rows_when_its_turn_has_come(monkeypatch):
    """Rows that come while it waits run with the first."""
    seen = []

    def model(signature, rows, stop):
        seen.append(len(rows))
        return [0] * len(rows)

    async def run():
        gate = asyncio.Event()
        made = lanes.Lanes(lanes.Runs(model), ServerOptions(max_wait_ms=0))
        monkeypatch.setattr(made, "_let_end", lambda other: gate.wait())
        first = asyncio.ensure_future(made.submit("s", [{"a": 1}]))
        for _ in range(5):
            await asyncio.sleep(0)
        second = asyncio.ensure_future(made.submit("s", [{"a": 1}]))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not seen
        gate.set()
        await asyncio.gather(first, second)
        await made.stop()

    asyncio.run(run())
    assert seen == [2]


def test_memory_of_costly_runs_is_given_back_once(monkeypatch):
    """In the lane's thread, when no costly request has come for a while."""
    given = []

    def trim():
        given.append(threading.current_thread().name)

    monkeypatch.setattr(lanes.heap, "trim", trim)
    monkeypatch.setattr(lanes, "_IDLE_SECONDS", 0.01)

    async def run():
        runs = lanes.Runs(lambda s, rows, stop: [0] * len(rows), row_weight=1)
        made = lanes.Lanes(runs, ServerOptions(max_wait_ms=0))
        await made.submit("s", [{"a": 1}])
        await asyncio.sleep(0.1)
        assert given == []
        await made.submit("s", [{"a": 1}] * 5)  # more than 4 rows
        while not given:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        await made.stop()

    asyncio.run(run())
    assert given == ["costly_0"]


def test_a_lane_that_has_ended_is_told(made):
    assert made.stuck() == "a lane has ended"


def test_costly_requests_rest_only_beside_quick_ones(made, monkeypatch):
    clock = Clock()
    monkeypatch.setattr(lanes, "time", clock)
    quick, costly = made.quick, made.costly
    job = types.SimpleNamespace(arrival=clock.now - 1.0, left=1)
    costly.jobs.append(job)
    quick.last_used = clock.now - 1.0
    assert made._rest(0.02) == pytest.approx(0.06)
    assert made._rest(9.0) == 0.2
    assert made._most(costly) == 16 < made._most(quick)
    job.arrival = clock.now - 15.5
    assert made._rest(0.02) == 0.0  # its deadline comes near
    job.arrival = clock.now - 1.0
    quick.last_used = clock.now - 2.5
    assert made._rest(0.02) == 0.0
    assert made._most(costly) == made._most(quick) == 16_384


def test_a_full_lane_refuses_and_the_other_one_does_not(made):
    """Each has `queue` rows of its own."""
    heavy = made.quick_weight + 1
    for lane, weight in ((made.quick, 1), (made.costly, heavy)):
        waiting = types.SimpleNamespace(left=1023)
        lane.jobs.append(waiting)
        with pytest.raises(Overloaded):
            asyncio.run(made.submit("s", [{"a": 1}] * 2, weight=weight))
        assert made.crowded() == ""
        waiting.left = 1024
        assert bool(made.crowded()) == (lane is made.quick)
        waiting.left = 0


def test_mistakes_are_answered_at_a_bounded_rate():
    clock = Clock()
    turns = Turns(10.0, burst=3, most=0.5, clock=clock.monotonic)
    waits = [turns.seconds() for _ in range(10)]
    wanted = [0.0, 0.0, 0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.5, 0.5]
    assert waits == pytest.approx(wanted)
    clock.now += 0.6  # one turn and a bit later than the last
    assert turns.seconds() == pytest.approx(0.0)
    clock.now += 60.0
    again = [turns.seconds() for _ in range(4)]
    assert again == pytest.approx([0.0, 0.0, 0.0, 0.1])


def test_only_mistakes_wait(slept):
    async def app(scope, receive, send):
        start = {"type": "http.response.start", "status": scope["status"]}
        await send(start | {"headers": []})

    async def send(message):
        sent.append(message["status"])

    scheduler = Scheduler(ServerOptions())
    scheduler.mistakes = types.SimpleNamespace(seconds=lambda: 0.25)
    made = guard.Guard(app, scheduler)
    scope = {"type": "http", "method": "GET", "path": "/", "headers": []}
    sent: list[int] = []
    for status in (200, 404, 413, 499, 503):
        asyncio.run(made(scope | {"status": status}, None, send))
    assert sent == [200, 404, 413, 499, 503]
    assert slept == [0.25, 0.25]
    scheduler.draining = True
    asyncio.run(made(scope | {"status": 400}, None, send))
    assert slept == [0.25, 0.25]  # the end does not wait
