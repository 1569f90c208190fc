"""Costly requests and mistakes leave the machine to the others."""

import asyncio
import types

import numpy as np
import pytest

pytest.importorskip("fastapi")

from serving.options import ServerOptions
from serving.web import batching, engine, guard
from serving.web.metrics import Metrics


class Clock:
    """Stands for the module `time`."""

    def __init__(self):
        self.now = 100.0

    def monotonic(self):
        return self.now


class Model:
    version = "1"
    variable_shapes: dict = {}
    description = {
        "head": "classification",
        "labels": [],
        "max_seq_length": 16,
        "signatures": {
            "serving_default": {
                "inputs": {"text": {"dtype": "string", "shape": [None]}},
                "outputs": {"x": {"dtype": "float32", "shape": [None]}},
            }
        },
    }

    def __call__(self, inputs, signature, stop=None):
        return {"x": np.zeros([len(inputs["text"])], np.float32)}


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


def test_a_lane_rests_after_each_run(monkeypatch, slept):
    clock, events = Clock(), []
    monkeypatch.setattr(batching, "time", clock)

    def model(signature, rows, stop):
        clock.now += 3.0
        events.append("run")
        return [0] * len(rows)

    def rest(seconds, waited):
        events.append((seconds, waited))
        return 7.0

    async def run():
        limits = batching.Limits(slice_tokens=lambda: 1, rest=rest, wait_ms=0)
        lane = batching.Batcher(model, limits)
        lane.start()
        await lane.submit("s", [{"a": 1}] * 3, weight=1)
        await lane.stop()

    asyncio.run(run())
    assert events[:5] == ["run", (3.0, 3.0), "run", (3.0, 6.0), "run"]
    assert [s for s in slept if s][:2] == [7.0, 7.0]


@pytest.fixture
def lanes():
    """The lanes of an engine that was started and stopped."""

    async def run():
        made = engine.Engine(Model(), ServerOptions(timeout_s=30.0), Metrics())
        made.start()
        lanes = dict(made._lanes)
        await made.stop()
        return lanes

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
def test_lanes_wait_for_short_runs_of_each_other(lanes, slept, ages, looks):
    for name, other in (("quick", "costly"), ("costly", "quick")):
        slept.clear()
        lanes[other].worker = Busy(ages)
        asyncio.run(lanes[name]._limits.turn())
        assert slept == [0.001] * looks


def test_a_lane_takes_rows_when_its_turn_has_come():
    """Rows that come while it waits run with the first."""
    seen = []

    def model(signature, rows, stop):
        seen.append(len(rows))
        return [0] * len(rows)

    async def run():
        gate = asyncio.Event()
        lane = batching.Batcher(
            model, batching.Limits(turn=gate.wait, wait_ms=0)
        )
        lane.start()
        first = asyncio.ensure_future(lane.submit("s", [{"a": 1}]))
        for _ in range(5):
            await asyncio.sleep(0)
        second = asyncio.ensure_future(lane.submit("s", [{"a": 1}]))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not seen
        gate.set()
        await asyncio.gather(first, second)
        await lane.stop()

    asyncio.run(run())
    assert seen == [2]


def test_costly_requests_rest_only_beside_quick_ones(lanes, monkeypatch):
    clock = Clock()
    monkeypatch.setattr(engine, "time", clock)
    quick, costly = lanes["quick"], lanes["costly"]._limits
    assert quick._limits.rest is None
    quick.last_used = clock.now - 1.0
    assert costly.rest(0.02, 1.0) == pytest.approx(0.06)
    assert costly.rest(9.0, 1.0) == 0.2
    assert costly.slice_tokens() == 16
    assert costly.rest(0.02, 15.5) == 0.0  # its deadline comes near
    quick.last_used = clock.now - 2.5
    assert costly.rest(0.02, 1.0) == 0.0
    assert costly.slice_tokens() > 16


def test_mistakes_are_answered_at_a_bounded_rate():
    clock = Clock()
    brake = guard.Brake(10.0, burst=3, most=0.5, clock=clock.monotonic)
    waits = [brake.seconds() for _ in range(10)]
    wanted = [0.0, 0.0, 0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.5, 0.5]
    assert waits == pytest.approx(wanted)
    clock.now += 0.6  # one turn and a bit later than the last
    assert brake.seconds() == pytest.approx(0.0)
    clock.now += 60.0
    again = [brake.seconds() for _ in range(4)]
    assert again == pytest.approx([0.0, 0.0, 0.0, 0.1])


def test_only_mistakes_wait(slept):
    draining: list[bool] = []

    async def app(scope, receive, send):
        start = {"type": "http.response.start", "status": scope["status"]}
        await send(start | {"headers": []})

    async def send(message):
        sent.append(message["status"])

    made = guard.Guard(app, Metrics(), lambda: bool(draining))
    made._brake = types.SimpleNamespace(seconds=lambda: 0.25)
    scope = {"type": "http", "method": "GET", "headers": []}
    sent: list[int] = []
    for status in (200, 404, 413, 499, 503):
        asyncio.run(made(scope | {"status": status}, None, send))
    assert sent == [200, 404, 413, 499, 503]
    assert slept == [0.25, 0.25]
    draining.append(True)
    asyncio.run(made(scope | {"status": 400}, None, send))
    assert slept == [0.25, 0.25]  # the end does not wait
