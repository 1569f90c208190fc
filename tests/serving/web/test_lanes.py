"""In which order rows run; costly ones leave the machine to the others."""

import asyncio
import threading
import time
import types

import pytest

pytest.importorskip("fastapi")
testclient = pytest.importorskip("fastapi.testclient")

from serving.options import ServerOptions  # noqa: E402
from serving.web import lanes  # noqa: E402
from serving.web.app import build_app  # noqa: E402
from serving.web.workers import Overloaded  # noqa: E402
from tests.serving.web.counting_model import PREDICT, FakeModel  # noqa: E402


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


def test_rows_that_belong_together_are_never_sliced(slept):
    """Neither beside quick requests nor by the number of rows."""
    events = []

    def model(signature, rows, stop):
        events.append(len(rows))
        return [0] * len(rows)

    async def run():
        runs = lanes.Runs(model, tokens=8, row_weight=2)
        made = lanes.Lanes(runs, ServerOptions(max_wait_ms=0, max_batch_size=4))
        for whole in (False, True):
            made.quick.last_used = time.monotonic()
            await made.submit("s", [{"a": 1}] * 7, 2, 2, True, whole)
        await made.stop()

    asyncio.run(run())
    assert events == [1] * 7 + [7]


def test_a_request_of_more_rows_than_may_wait_has_its_turn():
    """With `--max_instances` above `--max_queue` it got 503 each time."""

    async def run():
        runs = lanes.Runs(lambda signature, rows, stop: [0] * len(rows))
        made = lanes.Lanes(runs, ServerOptions(max_queue=2, max_wait_ms=20))
        first = asyncio.ensure_future(made.submit("s", [{"a": 1}] * 3))
        await asyncio.sleep(0)
        with pytest.raises(Overloaded):  # now three wait
            await made.submit("s", [{"a": 1}])
        answers = await first
        await made.stop()
        return answers

    assert asyncio.run(run()) == [0] * 3


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


def _order(weights: list[int], per_run: int) -> list[int]:
    """Which job's rows each run holds; the first run teaches the time."""

    async def run() -> list[int]:
        seen: list[int] = []

        def model(signature, rows, stop):
            seen.append(rows[0]["job"])
            return [0] * len(rows)

        runs = lanes.Runs(model, tokens=1000, row_weight=per_run)
        options = ServerOptions(max_batch_size=8, max_wait_ms=1)
        made = lanes.Lanes(runs, options)
        made.costly.token_seconds = 1.0
        made.quick.last_used = time.monotonic()  # so runs are slices
        made.quick_weight = 0
        tasks = [
            asyncio.ensure_future(
                made.submit("s", [{"job": i}] * (8 if w > 9 else 1), w, w)
            )
            for i, w in enumerate(weights)
        ]
        await asyncio.gather(*tasks)
        await made.stop()
        return seen

    return asyncio.run(run())


def test_small_requests_go_before_large_ones():
    """A request of 8 rows of weight 20 has a run per two of them."""
    order = _order([20, 1, 20, 2], per_run=40)
    assert order[:2] == [1, 3]
    assert sorted(order[2:]) == [0] * 4 + [2] * 4
    assert set(order[2:4]) == {0, 2}  # neither waits for all of the other


# --- Requests of several clients at the same time -----------------------------


class Slow(FakeModel):
    """Takes `seconds` for every row."""

    description = FakeModel.description | {"max_seq_length": 64}

    def __init__(self, seconds=0.0):
        super().__init__()
        self.seconds = seconds

    def __call__(self, inputs, signature, stop=None):
        time.sleep(self.seconds * len(inputs["text"]))
        return super().__call__(inputs, signature, stop)


def client_of(model, **options):
    app = build_app(model, ServerOptions(**options))
    return testclient.TestClient(app, raise_server_exceptions=False)


@pytest.fixture
def model():
    return FakeModel()


@pytest.fixture
def client(model):
    with client_of(model, timeout_s=0.5) as client:
        yield client


def test_requests_at_the_same_time_share_a_batch(client, model):
    model.gate.clear()
    answers = []

    def ask(i):
        body = {"instances": ["x" * (i + 1)]}
        answers.append((i, client.post(PREDICT, json=body).json()))

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(9)]
    for thread in threads:
        thread.start()
    time.sleep(0.2)
    model.gate.set()
    for thread in threads:
        thread.join()
    for i, answer in answers:
        assert answer["predictions"][0]["length"] == i + 1
    assert sum(model.batches) == 9 and len(model.batches) < 9


def test_a_crash_spares_its_neighbours(client, model):
    model.gate.clear()
    codes = {}

    def ask(text):
        answer = client.post(PREDICT, json={"instances": [text]})
        codes[text] = answer.status_code

    threads = [
        threading.Thread(target=ask, args=(t,)) for t in ("a", "crash", "bb")
    ]
    for thread in threads:
        thread.start()
    time.sleep(0.1)
    model.gate.set()
    for thread in threads:
        thread.join()
    assert codes == {"a": 200, "crash": 500, "bb": 200}


@pytest.mark.long
def test_neighbours_pass_a_costly_request():
    model = Slow(seconds=0.05)
    with client_of(model, max_tokens=128, timeout_s=20.0) as client:
        dear = {"instances": ["x" * 500] * 20}  # 64 tokens each: 1 s
        codes = []
        thread = threading.Thread(
            target=lambda: codes.append(
                client.post(PREDICT, json=dear).status_code
            )
        )
        thread.start()
        time.sleep(0.3)
        waits = []
        for _ in range(5):
            start = time.monotonic()
            assert client.post(PREDICT, json={"instances": ["a"]}).is_success
            waits.append(time.monotonic() - start)
        assert thread.is_alive()
        assert max(waits) < 1.0
        thread.join()
    assert codes == [200]


@pytest.mark.long
def test_no_slice_runs_for_a_request_that_timed_out():
    model = Slow(seconds=0.1)
    with client_of(model, max_tokens=64, timeout_s=0.35) as client:
        answer = client.post(PREDICT, json={"instances": ["x" * 300] * 40})
        assert answer.status_code == 504
        time.sleep(0.5)
        assert 1 <= len(model.batches) <= 6
