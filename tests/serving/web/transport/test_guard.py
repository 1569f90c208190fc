"""What surrounds every call: foreign pages, errors, mistakes, the end."""

import asyncio
import json
import logging
import types

import pytest

pytest.importorskip("fastapi")
testclient = pytest.importorskip("fastapi.testclient")

from starlette.requests import ClientDisconnect  # noqa: E402

from serving.options import ServerOptions  # noqa: E402
from serving.web.app import build_app  # noqa: E402
from serving.web.scheduler import Scheduler  # noqa: E402
from serving.web.transport import guard  # noqa: E402
from tests.serving.web.counting_model import FakeModel  # noqa: E402

SCOPE = {"type": "http", "method": "GET", "path": "/", "headers": []}
START = {"type": "http.response.start", "status": 200, "headers": []}


@pytest.fixture
def scheduler():
    return Scheduler(ServerOptions())


@pytest.fixture
def slept(monkeypatch):
    """Seconds of every sleep, which takes none."""
    found = []

    async def record(seconds):
        found.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", record)
    return found


def call(app, scheduler, hosts=(), **scope):
    """What is sent for one call of an application behind the guard."""
    sent = []

    async def send(message):
        sent.append(message)

    made = guard.Guard(app, scheduler, hosts)
    asyncio.run(made(SCOPE | scope, None, send))
    return sent


def fails(error, started=False):
    """An application that raises."""

    async def app(scope, receive, send):
        if started:
            await send(START)
        raise error

    return app


def test_other_sites_and_other_names_are_refused():
    options = ServerOptions(allowed_hosts=("127.0.0.1", "localhost", "[::1]"))
    body = {"instances": ["a"]}
    with testclient.TestClient(build_app(FakeModel(), options)) as client:

        def code(**headers):
            headers = {k.replace("_", "-"): v for k, v in headers.items()}
            answer = client.post("/answer", json=body, headers=headers)
            if answer.status_code != 200:
                assert list(answer.json()) == ["error"]
            return answer.status_code

        for host in ("LOCALHOST", "localhost", "127.0.0.1:8501", "[::1]:8501"):
            assert code(host=host) == 200
            assert code(host=host, origin=f"http://{host}") == 200
        # A name can be pointed at this machine from elsewhere, no address.
        assert code(host="192.0.2.7:80") == code(host="[2001:db8::1]") == 200
        for host in ("evil.example", "localhost.evil.example:8501", "", "1.2"):
            assert code(host=host) == 403
        host = "localhost:8501"
        for origin in ("http://evil.example", "null", "http://localhost:9"):
            assert code(host=host, origin=origin) == 403
        assert code(host=host, sec_fetch_site="cross-site") == 403
        assert code(host=host, sec_fetch_site="same-origin") == 200
        link = {"host": host, "sec-fetch-site": "cross-site"}
        assert client.get("/", headers=link).status_code == 200


def test_a_probe_without_a_host_is_answered(slept, scheduler):
    """HTTP/1.0 does not ask for one; the protocol refuses HTTP/1.1 so."""

    async def app(scope, receive, send):
        await send(START)

    for headers, status in (
        ([], START["status"]),
        ([(b"host", b"")], 403),
        ([(b"origin", b"http://evil.example")], 403),
    ):
        sent = call(app, scheduler, ("localhost",), headers=headers)
        assert sent[0]["status"] == status


def test_only_mistakes_wait(slept, scheduler):
    async def app(scope, receive, send):
        start = {"type": "http.response.start", "status": scope["status"]}
        await send(start | {"headers": []})

    scheduler.mistakes = types.SimpleNamespace(seconds=lambda: 0.25)
    for status in (200, 404, 413, 499, 503):
        (start,) = call(app, scheduler, status=status)
        assert start["status"] == status
    assert slept == [0.25, 0.25]
    scheduler.draining = True
    call(app, scheduler, status=400)
    assert slept == [0.25, 0.25]  # the end does not wait


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (ClientDisconnect(), 499, "the client left"),
        (asyncio.CancelledError(), 503, "the server is ending"),
        (ValueError("/secret/path"), 500, "internal error"),
    ],
)
def test_an_error_is_one_line_and_ends_the_connection(
    scheduler, caplog, error, status, message
):
    with caplog.at_level(logging.ERROR, "serving"):
        start, body = call(fails(error), scheduler)
    assert start["status"] == status
    assert (b"connection", b"close") in start["headers"]
    assert json.loads(body["body"]) == {"error": message}
    assert (status == 500) == ("/secret/path" in caplog.text)


def test_an_error_in_the_middle_of_an_answer_is_raised(scheduler, caplog):
    """The client sees that the answer is cut off; no second one begins."""
    with (
        caplog.at_level(logging.ERROR, "serving"),
        pytest.raises(ValueError, match="late"),
    ):
        call(fails(ValueError("late"), started=True), scheduler)
    assert "request failed" in caplog.text
    with pytest.raises(asyncio.CancelledError):
        call(fails(asyncio.CancelledError(), started=True), scheduler)


def test_a_client_that_leaves_is_counted_at_any_time(scheduler):
    for started, messages in ((False, 2), (True, 1)):
        app = fails(ClientDisconnect(), started)
        assert len(call(app, scheduler)) == messages
    count = scheduler.counts().get_sample_value("xlnet_disconnects_total")
    assert count == 2.0


def test_at_the_end_every_answer_closes_its_connection_once(scheduler):
    close = (b"connection", b"close")

    async def app(scope, receive, send):
        headers = [(b"x-a", b"1"), *([close] if scope["closes"] else ())]
        await send(START | {"headers": headers})

    (start,) = call(app, scheduler, closes=False)
    assert start["headers"] == [(b"x-a", b"1")]
    scheduler.draining = True
    for closes in (False, True):
        (start,) = call(app, scheduler, closes=closes)
        assert start["headers"] == [(b"x-a", b"1"), close]


def test_other_events_and_methods_reach_the_application(scheduler):
    seen = []

    async def app(scope, receive, send):
        seen.append((scope["type"], scope.get("method")))

    call(app, scheduler, method="HEAD")
    call(app, scheduler, method="PUT")
    call(app, scheduler, type="lifespan", method=None)
    assert seen == [("http", "GET"), ("http", "PUT"), ("lifespan", None)]
