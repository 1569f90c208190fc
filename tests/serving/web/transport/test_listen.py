"""Connections that are slow, idle or gone, and the end of the server."""

import contextlib
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")


@contextlib.contextmanager
def running(timeout_s, read_timeout_s):
    """(process, port) of a server around `SleepyModel`."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.serving.web.slow_server"]
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
