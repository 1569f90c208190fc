"""Connections that are slow, idle or gone, and the end of the server."""

import contextlib
import json
import re
import resource
import signal
import socket
import subprocess
import threading
import time

import pytest

fastapi = pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from serving.options import ServerOptions  # noqa: E402
from serving.web.addresses import Connections  # noqa: E402
from serving.web.scheduler import Scheduler  # noqa: E402
from serving.web.transport import listen  # noqa: E402
from tests.helpers import commands  # noqa: E402


@contextlib.contextmanager
def running(timeout_s, read_timeout_s):
    """(process, port) of a server around `SleepyModel`."""
    process = subprocess.Popen(
        [commands.python(), "-m", "tests.serving.web.slow_server"]
        + [str(timeout_s), str(read_timeout_s)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Who runs the tests may ignore SIGHUP (`nohup`); the server then would.
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    )
    try:
        port = int(process.stdout.readline())
        yield process, port
    finally:
        process.kill()
        process.wait(30)
        process.stdout.close()
        process.stderr.close()


def connect(port):
    return socket.create_connection(("127.0.0.1", port), timeout=20)


def request(port, text, path="/v1/models/xlnet:predict"):
    body = json.dumps({"instances": [text]}).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
    with connect(port) as s:
        s.sendall(head.encode() + str(len(body)).encode() + b"\r\n\r\n" + body)
        return s.recv(65536).decode()


def read_all(s):
    found = b""
    while block := s.recv(65536):
        found += block
    return found.decode()


def get(port, path):
    with connect(port) as s:
        s.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n".encode())
        s.sendall(b"Connection: close\r\n\r\n")
        return read_all(s)


@pytest.mark.long
def test_sigterm_ends_within_the_timeout_whatever_runs():
    with running(4, 30) as (process, port):
        ask = threading.Thread(target=request, args=(port, "100"))
        ask.start()
        assert process.stdout.readline() == "sleeps\n"
        start = time.monotonic()
        process.send_signal(signal.SIGTERM)
        process.wait(20)
        assert time.monotonic() - start < 4.5
        assert process.returncode == 0
        ask.join()


@pytest.mark.long
@pytest.mark.parametrize("number", ["SIGTERM", "SIGHUP"])
def test_a_signal_before_the_event_loop_is_not_lost(number):
    """It comes when the handlers are set and uvicorn has not begun."""
    code = (
        "import os, signal, uvicorn\n"
        "serve = uvicorn.Server.run\n"
        "def run(server, *args, **kwargs):\n"
        f"    os.kill(os.getpid(), signal.{number})\n"
        "    serve(server, *args, **kwargs)\n"
        "uvicorn.Server.run = run\n"
        "import runpy, sys\n"
        "sys.argv = ['server', '4', '30']\n"
        "runpy.run_module('tests.serving.web.slow_server', None, '__main__')\n"
    )
    done = subprocess.run(
        [commands.python(), "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Traceback" not in done.stderr


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_answers_after_a_signal_close_their_connection(number):
    with running(8, 30) as (process, port):
        answers = []
        idle = connect(port)
        idle.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        found = b""
        while not found.endswith(b'{"status":"ok"}'):
            found += idle.recv(1000)
        ask = threading.Thread(
            target=lambda: answers.append(request(port, "1.5"))
        )
        ask.start()
        assert process.stdout.readline() == "sleeps\n"
        process.send_signal(number)
        idle.settimeout(1.0)  # while the request still runs
        assert idle.recv(100) == b""
        idle.close()
        ask.join()
        assert answers[0].startswith("HTTP/1.1 200")
        assert "connection: close" in answers[0].lower()
        assert process.wait(20) == 0


@pytest.fixture(scope="module")
def port():
    """Of one server for the tests that do not end it; its log stays short."""
    with running(8, 2) as (process, number):
        yield number
        process.terminate()
        process.wait(20)
        log = process.stderr.read()
        assert process.returncode == 0 and "leaked" not in log
        assert "Traceback" not in log and len(log.splitlines()) < 10


def disconnects(port):
    return float(
        re.search(r"\nxlnet_disconnects_total (\S+)", get(port, "/metrics"))[1]
    )


def test_clients_that_leave_are_counted_and_cost_no_trace(port):
    request(port, "0")
    before = disconnects(port)
    for _ in range(100):
        with connect(port) as s:
            s.sendall(
                b"POST /v1/models/xlnet:predict HTTP/1.1\r\nHost: "
                b'localhost\r\nContent-Length: 9000\r\n\r\n{"instances"'
            )
    start = time.monotonic()
    assert request(port, "0").startswith("HTTP/1.1 200")
    assert time.monotonic() - start < 3.0
    assert disconnects(port) - before == 100


@pytest.mark.long
def test_slow_and_idle_connections_are_cut_off(port):
    request(port, "0")
    started = time.monotonic()
    silent, slow_head, slow_body = (connect(port) for _ in range(3))
    slow_head.sendall(b"GET /healthz HTTP/1.1\r\nHost: local")
    slow_body.sendall(
        b"POST /v1/models/xlnet:predict HTTP/1.1\r\nHost: localhost\r\n"
        b'Content-Length: 50\r\n\r\n{"inst'
    )
    for _ in range(8):  # a byte now and then does not help
        time.sleep(0.2)
        slow_head.sendall(b"x")
    assert silent.recv(10) == b"" and slow_head.recv(10) == b""
    answer = read_all(slow_body)
    assert answer.startswith("HTTP/1.1 408") and '"error": ' in answer
    assert time.monotonic() - started < 5.0
    for s in (silent, slow_head, slow_body):
        s.close()


def test_what_is_no_http_gets_an_error_object(port):
    for _ in range(30):
        with connect(port) as s:
            s.sendall(b"\x00\x01 nonsense\r\n\r\n")
            answer = read_all(s)
        assert answer.startswith("HTTP/1.1 400")
        assert json.loads(answer.split("\r\n\r\n")[1])["error"]


# --- Without a process of its own ----------------------------------------------


def test_who_closes_at_once_is_not_let_in():
    """Nor keeps others from their turn."""
    places = Connections(5, 5)
    plain = socket.create_server(("127.0.0.1", 0), backlog=100)
    number = plain.getsockname()[1]
    plain.setblocking(False)
    for _ in range(listen._EACH_TURN + 3):
        connect(number).close()
    with connect(number) as kept, listen.Listener(plain, places) as one:
        with pytest.raises(BlockingIOError):
            one.accept()
        assert places.total == 0
        found, address = one.accept()
        assert address == kept.getsockname() and places.total == 1
        found.close()
        found.close()
        assert places.total == 0
        with pytest.raises(BlockingIOError):
            one.accept()


@pytest.mark.parametrize(
    ("soft", "hard", "wanted", "allowed", "raised"),
    [
        (1024, 4096, 500, 500, None),  # it is enough
        (1024, 4096, 2000, 2000, (2128, 4096)),
        (1024, 1500, 2000, 1372, (1500, 1500)),  # the system's most
        (100, 120, 2000, 30, (120, 120)),  # the line said -8
        (100, 120, 10, 10, (120, 120)),  # it allowed 30
        (256, resource.RLIM_INFINITY, 900, 900, (1028, resource.RLIM_INFINITY)),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, 9000, 9000, None),
    ],
)
def test_open_files_are_raised_for_the_connections(
    monkeypatch, caplog, soft, hard, wanted, allowed, raised
):
    calls = []
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda *a: calls.append(a))
    assert listen._raise_open_files(wanted) == allowed
    assert calls == ([(resource.RLIMIT_NOFILE, raised)] if raised else [])
    said = f"--max_connections is {allowed} here"
    assert (said in caplog.text) == (allowed < wanted)


def test_the_server_has_the_bounds_of_its_options(monkeypatch):
    monkeypatch.setattr(listen, "_raise_open_files", lambda wanted: wanted - 7)
    application = fastapi.FastAPI()
    options = ServerOptions(
        timeout_s=20.0, read_timeout_s=0.2, max_connections=50
    )
    scheduler = application.state.scheduler = Scheduler(options)
    config = listen.make_server(application).config
    assert scheduler.connections.most == 43
    assert config.timeout_graceful_shutdown == pytest.approx(14.0)
    assert config.timeout_keep_alive == 1  # whole seconds, never none
    assert config.http.scheduler is scheduler
    assert not config.server_header and not config.is_ssl


def test_the_first_signal_sets_the_time_of_the_end(monkeypatch):
    timers = []

    class Timer:
        def __init__(self, seconds, call):
            self.planned = (seconds, call)

        def start(self):
            timers.append((*self.planned, self.daemon))

    application = fastapi.FastAPI()
    application.state.scheduler = Scheduler(ServerOptions(timeout_s=10.0))
    server = listen.make_server(application)
    monkeypatch.setattr(listen.threading, "Timer", Timer)
    for _ in range(2):
        server.handle_exit(signal.SIGTERM, None)
        assert server.scheduler.draining and server.should_exit
    assert timers == [(9.0, listen._leave, True)]


def test_who_has_connected_when_the_end_comes_is_answered():
    """A closed listener would reset those that it has not let in."""
    application = fastapi.FastAPI()
    application.state.scheduler = Scheduler(ServerOptions(timeout_s=10.0))
    application.get("/")(lambda: "here")
    server = listen.make_server(application)
    listener = socket.create_server(("127.0.0.1", 0), backlog=50)
    port = listener.getsockname()[1]
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(connect(port)) for _ in range(40)]
        silent = stack.enter_context(connect(port))
        for client in clients:
            client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        server.should_exit = True  # as after an early signal
        start = time.monotonic()
        server.run(sockets=[listener])
        assert time.monotonic() - start < 5.0
        assert silent.recv(10) == b""
        for client in clients:
            assert read_all(client).startswith("HTTP/1.1 200")
