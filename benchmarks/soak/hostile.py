"""What attackers do to a server: bad and dear requests, bad connections."""

import contextlib
import http.client
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator

PREDICT = "/v1/models/xlnet:predict"
HOST = "127.0.0.1"
TIMEOUT = 60
WAIT = 0.02  # between two tries
Stop = threading.Event


# --- Attacks by body ----------------------------------------------------------


def bodies(row: dict) -> dict[str, tuple[str, bytes]]:
    """Name -> (path, body) of requests that are refused or dear.

    Args:
      row: one good instance.
    """

    def rows(value) -> bytes:
        return json.dumps({"instances": value}).encode()

    def ids(value, **more) -> bytes:
        inputs = {"input_ids": value} | more
        return json.dumps({"signature_name": "ids", "inputs": inputs}).encode()

    key = next(iter(row))
    long = {
        k: "word " * 9000 if isinstance(v, str) else v for k, v in row.items()
    }
    return {
        "deep lists": (PREDICT, b'{"instances": ' + b"[" * 400_000),
        "deep objects": (PREDICT, b'{"a": ' * 100_000),
        "huge text": (PREDICT, rows([row | {key: "x" * 900_000}])),
        "too many rows": (PREDICT, rows([row] * 5000)),
        "memory: long ids": (PREDICT, ids([[7] * 8000])),
        "memory: many long ids": (PREDICT, ids([[7] * 4000] * 40)),
        "mask of another length": (PREDICT, ids([[7, 8]], input_mask=[[1]])),
        "ragged ids": (PREDICT, ids([[7, 8], [7]])),
        "ids out of range": (PREDICT, ids([[-1, 10**9]])),
        "numbers that are none": (PREDICT, b'{"instances": [NaN, Infinity]}'),
        "wrong types": (PREDICT, rows([3, None, [], {"x": {}}])),
        "not UTF-8": (PREDICT, b'{"instances": ["\xff\xfe"]}'),
        "not JSON": (PREDICT, b"\x00\x01" * 1000),
        "unknown signature": (
            PREDICT,
            json.dumps({"signature_name": "x", "instances": [row]}).encode(),
        ),
        "unknown path": ("/v1/models/../../etc/passwd:predict", rows([row])),
        "costly: long texts": (PREDICT, rows([long] * 16)),
        "costly: full batches": (PREDICT, rows([row] * 64)),
    }


def _repeat(port: int, path: str, body: bytes, stop: Stop) -> None:
    while not stop.is_set():
        with contextlib.suppress(OSError, http.client.HTTPException):
            client = http.client.HTTPConnection(HOST, port, timeout=TIMEOUT)
            client.request("POST", path, body)
            client.getresponse().read()
            client.close()
        stop.wait(WAIT)


# --- Attacks by connection ----------------------------------------------------


def _head(length: int) -> bytes:
    return (
        f"POST {PREDICT} HTTP/1.1\r\nHost: {HOST}\r\n"
        f"Content-Length: {length}\r\n\r\n"
    ).encode()


@contextlib.contextmanager
def _connected(port: int) -> Iterator[socket.socket]:
    with contextlib.suppress(OSError):
        with socket.create_connection((HOST, port), TIMEOUT) as s:
            yield s


def _drip(data: bytes) -> Callable:
    """A byte every tenth of a second, then silence."""

    def attack(port: int, body: bytes, stop: Stop) -> None:
        with _connected(port) as s:
            for i in range(len(data)):
                s.sendall(data[i : i + 1])
                if stop.wait(0.1):
                    return

    return attack


def _idle(port: int, body: bytes, stop: Stop) -> None:
    with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
        for _ in range(50):
            s = socket.create_connection((HOST, port), TIMEOUT)
            stack.enter_context(s)
        stop.wait()


def _leave_in_body(port: int, body: bytes, stop: Stop) -> None:
    with _connected(port) as s:
        s.sendall(_head(len(body) + 1000) + body)


def _leave_before_answer(port: int, body: bytes, stop: Stop) -> None:
    with _connected(port) as s:
        s.sendall(_head(len(body)) + body)


def _never_read(port: int, body: bytes, stop: Stop) -> None:
    with _connected(port) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        for _ in range(20):
            s.sendall(_head(len(body)) + body)
        stop.wait(1.0)


def _pipelined(port: int, body: bytes, stop: Stop) -> None:
    with _connected(port) as s:
        s.sendall((_head(len(body)) + body) * 50)
        s.settimeout(1.0)
        while s.recv(1 << 16) and not stop.is_set():
            pass


def _declared_huge(port: int, body: bytes, stop: Stop) -> None:
    with _connected(port) as s:
        s.sendall(_head(1 << 40) + b"x" * 100_000)
        s.recv(1 << 16)


def _chunked_huge(port: int, body: bytes, stop: Stop) -> None:
    head = _head(0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    with _connected(port) as s:
        s.sendall(head)
        for _ in range(100):
            s.sendall(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")


def _garbage(port: int, body: bytes, stop: Stop) -> None:
    with _connected(port) as s:
        s.sendall(os.urandom(5000) + b"\r\n\r\n")
        s.recv(1 << 16)


CONNECTIONS = {
    "slow headers": _drip(b"POST / HTTP/1.1\r\nX: " + b"a" * 1000),
    "slow body": _drip(_head(1000) + b"a" * 900),
    "idle connections": _idle,
    "leaving in a body": _leave_in_body,
    "leaving before the answer": _leave_before_answer,
    "answers never read": _never_read,
    "pipelined": _pipelined,
    "a huge body, declared": _declared_huge,
    "a huge body, in chunks": _chunked_huge,
}


def _repeat_connection(attack, port, body, stop: Stop) -> None:
    while not stop.is_set():
        with contextlib.suppress(OSError):
            attack(port, body, stop)
        stop.wait(WAIT)


def attacks(row: dict) -> dict[str, Callable[[int, Stop], None]]:
    """Name -> what one attacker does until it is stopped."""
    good = json.dumps({"instances": [row]}).encode()
    made: dict[str, Callable] = {}
    for name, (path, body) in bodies(row).items():
        made[name] = lambda port, stop, p=path, b=body: _repeat(
            port, p, b, stop
        )
    for name, attack in (CONNECTIONS | {"garbage": _garbage}).items():
        made[name] = lambda port, stop, a=attack: _repeat_connection(
            a, port, good, stop
        )
    return made
