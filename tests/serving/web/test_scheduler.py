"""What all bounds share: the contract, times of requests, the two probes."""

import asyncio
import dataclasses
import re
import threading
import time
import types

import pytest

pytest.importorskip("fastapi")
testclient = pytest.importorskip("fastapi.testclient")

from starlette.requests import ClientDisconnect  # noqa: E402

from common.errors import UserError  # noqa: E402
from serving.options import ServerOptions  # noqa: E402
from serving.web import scheduler as scheduler_lib  # noqa: E402
from serving.web.app import build_app  # noqa: E402
from serving.web.scheduler import Refused, Scheduler  # noqa: E402
from serving.web.workers import Overloaded  # noqa: E402
from tests.serving.web.counting_model import PREDICT, FakeModel  # noqa: E402


def test_the_contract_names_every_bound_and_its_status():
    fields = [f.name for f in dataclasses.fields(ServerOptions)]
    bounds = [n for n in fields if n.startswith("max_") or "timeout" in n]
    bounds.remove("max_numbers")  # it has no flag
    bounds.remove("max_batch_size")  # more rows take more runs
    missing = [n for n in bounds if f"`--{n}`" not in scheduler_lib.__doc__]
    assert not missing
    rows = [line for line in scheduler_lib.__doc__.splitlines() if "|" in line]
    assert {line.count("|") for line in rows} == {5}
    told = set(re.findall(r"\b[45]\d\d\b", scheduler_lib.__doc__))
    assert told == set(
        "400 401 403 408 413 414 415 429 431 503 504 505".split()
    )


def test_a_slow_answer_times_out_and_a_full_queue_refuses():
    model = FakeModel()
    options = ServerOptions(timeout_s=0.2, max_queue=1)
    model.gate.clear()
    with testclient.TestClient(build_app(model, options)) as client:
        codes = []

        def ask():
            answer = client.post(PREDICT, json={"instances": ["a"]})
            codes.append(answer.status_code)

        threads = [threading.Thread(target=ask) for _ in range(6)]
        for thread in threads:
            thread.start()
            time.sleep(0.02)
        for thread in threads:
            thread.join()
        model.gate.set()
        assert set(codes) == {503, 504}
        assert client.post(PREDICT, json={"instances": ["a"]}).is_success


@pytest.mark.long
def test_health_tells_a_stuck_run():
    gate = threading.Event()

    class Stuck(FakeModel):
        def __call__(self, inputs, signature, stop=None):
            gate.wait(20)
            return super().__call__(inputs, signature, stop)

    app = build_app(Stuck(), ServerOptions(timeout_s=0.2))
    with testclient.TestClient(app) as client:
        assert client.get("/healthz").json() == {"status": "ok"}
        assert client.get("/readyz").json() == {"status": "ready"}
        answer = client.post(PREDICT, json={"instances": ["a"]})
        assert answer.status_code == 504
        time.sleep(0.1)
        ready = client.get("/readyz")
        assert ready.status_code == 503 and "run" in ready.json()["error"]
        assert client.get("/healthz").status_code == 200
        time.sleep(0.4)
        assert client.get("/healthz").status_code == 503
        gate.set()
        time.sleep(0.1)
        assert client.get("/readyz").status_code == 200


def test_a_run_that_nobody_waits_for_is_stopped():
    saved_model = pytest.importorskip("serving.saved_model")
    import tensorflow as tf

    @tf.function(autograph=False)
    def endless(x):
        return tf.while_loop(lambda x: x > 0.0, lambda x: (x + 1.0,), (x,))

    # Concrete, as in a SavedModel.
    concrete = endless.get_concrete_function(tf.TensorSpec([], tf.float32))
    stop = saved_model.Stop()
    threading.Timer(0.5, stop.request).start()
    with stop.watch(), pytest.raises(tf.errors.CancelledError):
        concrete(tf.constant(1.0))


# --- Steps of one request, without a server -----------------------------------


class Http:
    """Stands for a request: its parts, each after some seconds."""

    def __init__(self, *parts, length=None, leaves=False):
        self.headers = {} if length is None else {"content-length": length}
        self._parts = parts
        self._leaves = leaves

    async def stream(self):
        for part in self._parts:
            if isinstance(part, float):
                await asyncio.sleep(part)
            else:
                yield part

    async def receive(self):
        if not self._leaves:
            await asyncio.Event().wait()
        return {"type": "http.disconnect"}


@pytest.mark.parametrize(
    ("http", "found"),
    [
        (Http(b"abc", b"def"), b"abcdef"),
        (Http(b"x" * 10, length="10"), b"x" * 10),
        (Http(b"x" * 10, b"y"), 413),
        (Http(b"", length="11"), 413),
        (Http(b"a", length="\u00b2"), b"a"),  # no number
        (Http(b"a", 60.0, b"b"), 408),
    ],
)
def test_a_body_has_a_size_and_a_time(http, found):
    options = ServerOptions(max_body_bytes=10, read_timeout_s=0.05)
    call = Scheduler(options).body(http)
    if isinstance(found, bytes):
        assert asyncio.run(call) == found
        return
    with pytest.raises(Refused) as e:
        asyncio.run(call)
    assert e.value.status == found


async def _raises(error):
    raise error


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (Overloaded(), 503, "too many requests are waiting"),
        (UserError("instances[0]: no text"), 400, "instances[0]: no text"),
        (Refused(413, "too\n  long"), 413, "too long"),
    ],
)
def test_errors_of_an_answer_have_a_status(error, status, message):
    scheduler = Scheduler(ServerOptions())
    with pytest.raises(Refused) as e:
        asyncio.run(scheduler.in_time(Http(), _raises(error)))
    assert e.value.status == status and message in e.value.message


def test_an_answer_that_nobody_waits_for_is_stopped():
    """Its client has left, or its time is over."""
    ends = []

    async def answer():
        try:
            await asyncio.Event().wait()
        finally:
            ends.append(True)

    async def run():
        scheduler = Scheduler(ServerOptions(timeout_s=0.02))
        with pytest.raises(Refused) as e:
            await scheduler.in_time(Http(), answer())
        assert e.value.status == 504 and len(ends) == 1
        scheduler = Scheduler(ServerOptions(timeout_s=60.0))
        with pytest.raises(ClientDisconnect):
            await scheduler.in_time(Http(leaves=True), answer())
        for _ in range(3):
            await asyncio.sleep(0)
        assert len(ends) == 2

    asyncio.run(run())


def test_an_answer_in_time_is_given():
    async def answer():
        await asyncio.sleep(0)
        return b"{}"

    scheduler = Scheduler(ServerOptions())
    assert asyncio.run(scheduler.in_time(Http(), answer())) == b"{}"


def test_requests_are_counted_by_their_status():
    scheduler = Scheduler(ServerOptions())
    errors = (Refused(404, "a"), ClientDisconnect(), KeyError("a"))
    for error in (*errors, KeyError("b")):
        with pytest.raises(type(error)), scheduler.counted():
            raise error
    with scheduler.counted():
        pass
    value = scheduler.counts().get_sample_value
    found = {
        status: value("xlnet_requests_total", {"status": status})
        for status in ("200", "404", "499", "500")
    }
    assert found == {"200": 1.0, "404": 1.0, "499": 1.0, "500": 2.0}
    assert value("xlnet_request_seconds_count") == 5.0


def test_only_much_work_is_the_helpers():
    scheduler, calls = Scheduler(ServerOptions()), []

    async def run(function, *arguments):
        calls.append(function)
        return function(*arguments)

    scheduler._helper = types.SimpleNamespace(run=run)
    assert asyncio.run(scheduler.do(False, len, "abc")) == 3
    assert not calls
    assert asyncio.run(scheduler.do(True, max, 4, 9)) == 9
    asyncio.run(scheduler.warm_up())
    assert calls == [max, scheduler_lib.wire.error]


def test_an_address_that_asks_too_often_is_counted():
    scheduler = Scheduler(ServerOptions(max_requests_per_address=2.0))
    scheduler.rates._clock = lambda: 5.0
    network = ("2001:db8:0:1::5", "2001:db8:0:1::6", "2001:db8:0:1::7")
    seconds = [scheduler.early(address) for address in network]
    assert seconds == [0.0, 0.0, 0.5]
    assert scheduler.early("2001:db8:0:2::5") == 0.0
    value = scheduler.counts().get_sample_value
    assert value("xlnet_requests_refused_total") == 1.0


def test_probes_tell_of_the_lanes_that_are_served():
    """Those of an older version are still counted, and no more."""
    scheduler = Scheduler(ServerOptions())
    old, new = (
        types.SimpleNamespace(
            stuck=lambda: "", crowded=lambda: "", waiting=n, working=False
        )
        for n in (3, 4)
    )
    scheduler._lanes += [old, new]
    old.stuck = old.crowded = lambda: "the old one is"
    assert scheduler.trouble() == scheduler.refusal() == ""
    new.crowded = lambda: "full"
    assert (scheduler.trouble(), scheduler.refusal()) == ("", "full")
    scheduler.draining = True
    assert scheduler.refusal() == "the server is ending"
    new.stuck = lambda: "stuck"
    assert scheduler.trouble() == scheduler.refusal() == "stuck"
    assert not scheduler.working
    old.working = True
    assert scheduler.working
    value = scheduler.counts().get_sample_value
    assert value("xlnet_waiting_rows") == 7.0
