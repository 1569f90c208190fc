"""Clients that send no more: some wait for their answer, others have left."""

import json
import socket
import time

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("httptools")

from serving.options import ServerOptions
from serving.web.transport.half_close import BEGINNING, HalfClosed
from tests.serving.web.slow_server import SleepyModel, in_thread

GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


def post(seconds, *headers, more=0):
    """A request whose answer takes `seconds`, with `more` bytes missing."""
    body = json.dumps({"instances": [str(seconds)]}).encode()
    lines = b"".join(header + b"\r\n" for header in headers)
    return (
        b"POST /v1/models/xlnet:predict HTTP/1.1\r\nHost: localhost\r\n"
        b"Content-Length: %d\r\n%s\r\n%s" % (len(body) + more, lines, body)
    )


@pytest.fixture(scope="module")
def served():
    """A server in a thread; its port is `served.port`."""
    with in_thread(SleepyModel(), ServerOptions()) as server:
        yield server


def connect(served):
    return socket.create_connection(("127.0.0.1", served.port), timeout=10)


def ask(served, data):
    """All that is answered to a client that then sends no more."""
    with connect(served) as s:
        s.sendall(data)
        s.shutdown(socket.SHUT_WR)
        found = b""
        while block := s.recv(65536):
            found += block
    return found


def counted(server, name):
    return server.scheduler.metrics.registry.get_sample_value(name)


@pytest.mark.parametrize("seconds", [0, 0.3])
@pytest.mark.parametrize(
    "headers", [(), (b"Connection: close",), (b"Expect: 100-continue",)]
)
def test_who_sends_no_more_is_answered(served, seconds, headers):
    """The connection was closed without a word."""
    before = counted(served, "xlnet_disconnects_total")
    answer = ask(served, post(seconds, *headers))
    answer = answer.removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert json.loads(body) == {"predictions": [{"x": 1.0, "y": 1.0}]}
    assert counted(served, "xlnet_disconnects_total") == before


def test_all_requests_of_who_sends_no_more_are_answered(served):
    answer = ask(served, post(0.1) + GET + post(0) + GET + GET[:20])
    assert answer.count(b"HTTP/1.1 200 OK\r\n") == 4
    assert answer.endswith(b'{"status":"ok"}')


def test_a_request_that_stays_a_part_of_one_is_not_waited_for(served):
    start = time.monotonic()
    for part in (b"", GET[:20], post(0, more=3)):
        assert ask(served, part) == b""
    assert ask(served, GET + post(0, more=3)).count(b"HTTP/1.1 ") == 1
    assert time.monotonic() - start < 5.0


def test_who_has_left_is_counted_while_the_model_runs(served):
    before = counted(served, "xlnet_disconnects_total")
    with connect(served) as s:
        s.sendall(post(1.5))
    end = time.monotonic() + 1.0
    while time.monotonic() < end:
        if counted(served, "xlnet_disconnects_total") > before:
            return
        time.sleep(0.01)
    raise AssertionError("the answer was waited for to its end")


class Transport:
    def __init__(self):
        self.written = b""

    def write(self, data):
        self.written += data

    def close(self):
        pass

    def is_closing(self):
        return False

    def get_extra_info(self, name):
        return self

    def getsockopt(self, level, option):
        return 1

    def abort(self):
        self.written += b"!"


class Cycle:
    response_started = False
    transport = None


def test_an_answer_is_written_once():
    transport, cycle = Transport(), Cycle()
    HalfClosed(transport).answers(cycle)
    assert transport.written == BEGINNING + b"!"  # its client is gone
    for data in (b"HTTP/1.1 200 OK\r\n", b"\r\n", b"HTTP/1.1 "):
        cycle.transport.write(data)
    assert transport.written[len(BEGINNING) + 1 :] == (
        b"200 OK\r\n\r\nHTTP/1.1 "
    )
    cycle = Cycle()
    cycle.response_started = True
    HalfClosed(transport).answers(cycle)
    assert cycle.transport is None  # the rest follows by itself
