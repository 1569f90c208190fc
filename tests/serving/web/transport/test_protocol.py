"""HTTP on a raw socket: what is refused, what bounds hold, who may connect."""

import json
import re
import socket
import time

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("httptools")

from serving.options import ServerOptions
from serving.web.addresses import Turns
from serving.web.transport import head, protocol
from tests.serving.web.slow_server import SleepyModel, in_thread

PATH = b"/v1/models/xlnet:predict"
BODY = b'{"instances": ["0"]}'
HOST = b"Host: localhost\r\n"
GET = b"GET /healthz HTTP/1.1\r\n" + HOST
MOST = 12  # connections
MOST_EACH = 8


@pytest.fixture(scope="module")
def served():
    """A server in a thread; its port is `served.port`."""
    options = ServerOptions(
        max_connections=MOST,
        max_connections_per_address=MOST_EACH,
        max_requests_per_address=0.0,
        max_body_bytes=100_000,
        allowed_hosts=("localhost",),
    )
    with in_thread(SleepyModel(), options) as server:
        yield server


@pytest.fixture
def port(served):
    end = time.monotonic() + 5
    while served.server_state.connections and time.monotonic() < end:
        time.sleep(0.01)  # of the test before
    return served.port


def connect(port, source="127.0.0.1"):
    return socket.create_connection(
        ("127.0.0.1", port), timeout=10, source_address=(source, 0)
    )


def read_all(s):
    found = b""
    while block := s.recv(65536):
        found += block
    return found


def read_one(s):
    """(status, body) of one answer of a connection that stays."""
    found = b""
    while b"\r\n\r\n" not in found:
        found += s.recv(65536)
    head, _, body = found.partition(b"\r\n\r\n")
    size = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    while len(body) < size:
        body += s.recv(65536)
    return int(head.split()[1]), body


def ask(port, data):
    """Everything that is answered until the server closes."""
    with connect(port) as s:
        s.sendall(data)
        return read_all(s)


def post(*headers, body=b""):
    lines = b"".join(h + b"\r\n" for h in headers)
    return b"POST " + PATH + b" HTTP/1.1\r\n" + HOST + lines + b"\r\n" + body


CHUNKED = b"Transfer-Encoding: chunked"
LENGTH = b"Content-Length: " + str(len(BODY)).encode()
REFUSED = {
    "bare LF": (b"GET /healthz HTTP/1.1\nHost: localhost\n\n", 400),
    "a bare LF among CRLF": (GET + b"X: 1\nY: 2\r\n\r\n", 400),
    "a bare CR": (GET + b"X: 1\rY: 2\r\n\r\n", 400),
    "HTTP/9.9": (b"GET /healthz HTTP/9.9\r\n" + HOST + b"\r\n", 505),
    "HTTP/2.0": (b"GET /healthz HTTP/2.0\r\n" + HOST + b"\r\n", 505),
    "no version": (b"GET /healthz\r\n" + HOST + b"\r\n", 400),
    "no host": (b"GET /healthz HTTP/1.1\r\n\r\n", 400),
    "two hosts": (GET + HOST + b"\r\n", 400),
    "a folded header": (GET + b"X: 1\r\n 2\r\n\r\n", 400),
    "a space before the colon": (GET + b"X : 1\r\n\r\n", 400),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00", 400),
    "both lengths": (post(LENGTH, CHUNKED, body=BODY), 400),
    "two lengths": (post(LENGTH, b"Content-Length: 3", body=BODY), 400),
    "a signed length": (post(b"Content-Length: +3", body=b"abc"), 400),
    "a superscript length": (post(b"Content-Length: \xb2", body=b"ab"), 400),
    "an unknown encoding": (post(b"Transfer-Encoding: gzip"), 400),
    "a bad chunk": (post(CHUNKED, body=b"zz\r\n\r\n"), 400),
    "a chunk without its end": (post(CHUNKED, body=b"2\r\nabcd"), 400),
    "a negative chunk": (post(CHUNKED, body=b"-1\r\nab"), 400),
    "an endless chunk size": (post(CHUNKED, body=b"1" * 40), 400),
    "tiny chunks": (post(CHUNKED, body=b"1\r\na\r\n" * 9000), 400),
    "a long extension": (post(CHUNKED, body=b"1;" + b"a" * 20_000), 400),
    "many trailers": (
        post(CHUNKED, body=b"1\r\na\r\n0\r\n" + b"a: b\r\n" * 5000),
        400,
    ),
    "many headers": (
        GET + b"a: b\r\n" * head.MOST_HEADERS + b"\r\n",
        431,
    ),
    "15,000 headers": (GET + b"a: b\r\n" * 15_000 + b"\r\n", 431),
    "a long header": (GET + b"X: " + b"a" * 40_000 + b"\r\n\r\n", 431),
    "a long URL": (b"GET /?" + b"a" * 60_000 + b" HTTP/1.1\r\n\r\n", 414),
    "a URL over its bound": (
        b"GET /?" + b"a" * head.MOST_URL + b" HTTP/1.1\r\n\r\n",
        414,
    ),
    "a URL without an end": (b"GET /" + b"a" * 9000, 414),
    "CONNECT": (b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_breaks_a_rule_is_one_line_and_the_end(port, name):
    data, status = REFUSED[name]
    answer = ask(port, data)  # ends, so the connection was closed
    assert answer.startswith(b"HTTP/1.1 %d " % status), answer[:200]
    assert answer.count(b"content-length") == 1
    assert b"connection: close" in answer.lower()
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]


def chunks(data, size):
    cut = [data[i : i + size] for i in range(0, len(data), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(c), c) for c in cut) + b"0\r\n"


LONG = b'{"instances": ["' + b"0" * 30_000 + b'"]}'
TAKEN = {
    "a length": post(LENGTH, body=BODY),
    "chunks": post(CHUNKED, body=chunks(BODY, 7) + b"\r\n"),
    "many chunks": post(CHUNKED, body=chunks(LONG, 64) + b"\r\n"),
    "trailers": post(CHUNKED, body=chunks(BODY, 9) + b"Host: x\r\n\r\n"),
    "an upgrade": post(
        LENGTH, b"Connection: Upgrade", b"Upgrade: h2c", body=BODY
    ),
    "an absolute URL": post(LENGTH, body=BODY).replace(
        PATH, b"http://localhost" + PATH
    ),
    "HTTP/1.0": post(LENGTH, body=BODY).replace(b"/1.1", b"/1.0"),
    "most headers": post(
        LENGTH, *[b"a: b"] * (head.MOST_HEADERS - 2), body=BODY
    ),
}


@pytest.mark.parametrize("name", TAKEN)
@pytest.mark.parametrize("size", [1 << 20, 1000])
def test_what_keeps_the_rules_is_answered(port, name, size):
    """However the bytes are cut into packets."""
    with connect(port) as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for i in range(0, len(TAKEN[name]), size):
            s.sendall(TAKEN[name][i : i + size])
        status, body = read_one(s)
    assert status == 200, body
    assert json.loads(body)["predictions"][0]["x"] == 1.0


def test_a_head_may_come_byte_by_byte(port):
    with connect(port) as s:
        for i in range(len(TAKEN["a length"])):
            s.sendall(TAKEN["a length"][i : i + 1])
        assert read_one(s)[0] == 200


@pytest.mark.parametrize("apart", [False, True])
def test_an_empty_line_between_requests_is_left_out(port, apart):
    """Some clients send one behind a body."""
    with connect(port) as s:
        for _ in range(2):
            request = post(LENGTH, body=BODY)
            for part in (b"\r", b"\n", request, b"\r", b"\n"):
                s.sendall(part)
                time.sleep(0.05 * apart)
            assert read_one(s)[0] == 200
        s.shutdown(socket.SHUT_WR)
        assert read_all(s) == b""


def test_small_pieces_gather(served, port, monkeypatch):
    """A packet of a byte is not worth a turn of the event loop."""
    reads = []
    take = protocol.BoundedProtocol._take

    def noted(self, data):
        reads.append(len(data))
        take(self, data)

    monkeypatch.setattr(protocol.BoundedProtocol, "_take", noted)
    monkeypatch.setattr(protocol, "_MOST_GATHER_SECONDS", 0.3)
    monkeypatch.setattr(protocol.BoundedProtocol, "_gather_seconds", 0.3)
    body = chunks(BODY, 1) + b"\r\n"
    data = post(CHUNKED, b"X: " + b"a" * 300, body=body)
    with connect(port) as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for i in range(len(data)):
            s.sendall(data[i : i + 1])
        assert read_one(s)[0] == 200
    assert sum(reads) == len(data) and len(reads) < 5


def test_a_request_waits_until_the_one_before_it_is_answered(port):
    """Pipelined requests are answered one after another, in their order."""
    with connect(port) as s:
        s.sendall(post(LENGTH, body=BODY) * 30 + GET + b"\r\n")
        s.sendall(GET + b"Connection: close\r\n\r\n")
        answers = read_all(s)
    assert answers.count(b"HTTP/1.1 200") == 32
    assert answers.endswith(b'{"status":"ok"}')
    assert answers.rindex(b"predictions") < answers.index(b'{"status":"ok"}')


def test_pipelined_requests_that_are_not_read_stay_with_the_client(
    served, port
):
    with connect(port) as s:
        s.setblocking(False)
        sent = 0
        end = time.monotonic() + 0.5
        while time.monotonic() < end:
            try:
                sent += s.send(GET + b"\r\n")
            except BlockingIOError:
                time.sleep(0.01)
        (held,) = served.server_state.connections
        assert len(held._held) <= 4 * protocol._READ


def test_chunks_with_a_request_behind_them_end_the_connection(port):
    answer = ask(
        port, post(CHUNKED, body=chunks(BODY, 9) + b"\r\n") + GET + b"\r\n"
    )
    assert answer.startswith(b"HTTP/1.1 200") and answer.count(b"HTTP/") == 1


def test_an_early_answer_is_read_and_ends_the_connection(port):
    """404 before the body has come, which is not waited for."""
    with connect(port) as s:
        s.sendall(post(b"Content-Length: 90000").replace(PATH, b"/nowhere"))
        answer = read_all(s)
    assert answer.startswith(b"HTTP/1.1 404")


def test_expect_is_answered_where_the_body_is_wanted(port):
    expect = b"Expect: 100-continue"
    with connect(port) as s:
        s.sendall(post(LENGTH, expect))
        assert s.recv(100).startswith(b"HTTP/1.1 100 ")
        s.sendall(BODY)
        assert read_one(s)[0] == 200
    wrong = post(LENGTH, expect).replace(PATH, b"/nowhere")
    assert ask(port, wrong).startswith(b"HTTP/1.1 404")
    old = post(LENGTH, expect, body=BODY).replace(b"/1.1", b"/1.0")
    assert ask(port, old).startswith(b"HTTP/1.1 200 ")  # it has no 100
    large = post(b"Content-Length: 100001", expect)
    assert ask(port, large).startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize(
    ("path", "status"),
    [("/healthz", 200), ("/", 200), ("/about", 200), ("/answer", 405)],
)
def test_head_is_get_without_a_body(port, path, status):
    line = f" {path} HTTP/1.1\r\nHost: LOCALHOST\r\nConnection: close\r\n\r\n"
    head = ask(port, b"HEAD" + line.encode())
    get = ask(port, b"GET" + line.encode())
    assert head.startswith(b"HTTP/1.1 %d" % status)
    assert head.endswith(b"\r\n\r\n")
    kept = [
        [
            h
            for h in x.partition(b"\r\n\r\n")[0].split(b"\r\n")
            if b"date" not in h
        ]
        for x in (head, get)
    ]
    assert kept[0] == kept[1]


# --- Who may connect ----------------------------------------------------------


def test_who_comes_takes_the_place_of_who_waits(served, port):
    """Idle connections of one address keep nobody out, it neither."""
    held = []
    for i in range(MOST):
        held.append(connect(port, f"127.0.0.{2 + i // MOST_EACH}"))
        held[-1].sendall(GET + b"\r\n")
        assert read_one(held[-1])[0] == 200
    more = connect(port, "127.0.0.2")
    assert held[0].recv(1) == b""  # the oldest of its own address
    mine = connect(port, "127.0.0.4")
    assert held[1].recv(1) == b""  # of the address that has most
    for s in (mine, more, *held[2:]):
        s.sendall(GET + b"\r\n")
        assert read_one(s)[0] == 200
    for s in (mine, more, *held):
        s.close()


def refused(port, source="127.0.0.1", what="connections"):
    """What /metrics says."""
    with connect(port, source) as s:
        s.sendall(b"GET /metrics HTTP/1.0\r\n" + HOST + b"\r\n")
        text = read_all(s).decode()
    return float(re.search(rf"\nxlnet_{what}_refused_total (\S+)", text)[1])


def test_connections_at_work_keep_their_place(served, port):
    before = refused(port)
    busy = [connect(port, "127.0.0.2") for _ in range(MOST_EACH)]
    for s in busy:
        s.sendall(
            post(LENGTH, body=BODY.replace(b"0", b"0.3")).replace(
                LENGTH, b"Content-Length: %d" % (len(BODY) + 2)
            )
        )
    time.sleep(0.1)
    with connect(port, "127.0.0.2") as s:
        assert s.recv(1) == b""
    assert refused(port, "127.0.0.4") == before + 1
    with connect(port, "127.0.0.4") as s:
        s.sendall(GET + b"\r\n")
        assert read_one(s)[0] == 200
    for s in busy:
        assert read_one(s)[0] == 200
        s.close()


def test_who_asks_too_often_is_told_when_to_come_again(
    served, port, monkeypatch
):
    source = "127.0.0.9"  # others may go on
    before = refused(port, what="requests")
    few = Turns(5, clock=lambda: 1.0)
    monkeypatch.setattr(served.scheduler, "rates", few)
    with connect(port, source) as s:
        for _ in range(5):
            s.sendall(GET + b"\r\n")
            assert read_one(s)[0] == 200
        s.sendall(GET + b"\r\n")
        answer = read_all(s)  # ends, so the connection was closed
    assert answer.startswith(b"HTTP/1.1 429 Too Many Requests\r\n")
    assert b"\r\nretry-after: 1\r\n" in answer
    assert "address" in json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
    assert refused(port, what="requests") == before + 1


@pytest.mark.parametrize(
    "path, member, value",
    [
        ("/v1/embeddings?a=b", "error", "rate_limit_exceeded"),
        ("/rerank", "error_type", "Overloaded"),
    ],
)
def test_who_asks_too_often_is_told_in_the_form_of_the_path(
    served, port, monkeypatch, path, member, value
):
    monkeypatch.setattr(served.scheduler, "rates", Turns(1, clock=lambda: 1.0))
    with connect(port, "127.0.0.10") as s:
        s.sendall(GET + b"\r\n")
        assert read_one(s)[0] == 200
        s.sendall(f"POST {path} HTTP/1.1\r\n".encode() + HOST + b"\r\n")
        answer = read_all(s)
    assert answer.startswith(b"HTTP/1.1 429 ")
    found = json.loads(answer.partition(b"\r\n\r\n")[2])[member]
    assert (found["code"] if member == "error" else found) == value
