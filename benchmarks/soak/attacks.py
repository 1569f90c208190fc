"""Good neighbours of a server while others attack it.

    python -m benchmarks.soak.attacks --saved_model_dir=OUT/export --seconds=10

Starts `serving.serve`, asks it quietly with a few good clients, then again
during each attack, and prints p50 and p99 of the good clients, how many of
their requests failed, and the server's memory before and after. Ends with
status 1 when a good request failed or the server ended. The wanted bound is a
p99 below 3 times the quiet one; on a machine of few cores the attackers take
the server's own time, so give them cores of their own.
"""

import argparse
import contextlib
import dataclasses
import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import psutil

from benchmarks.soak.killing import ROOT

PREDICT = "/v1/models/xlnet:predict"
_HOST = "127.0.0.1"
_TIMEOUT = 60
_WAIT = 0.02  # between two of an attacker's tries
Stop = threading.Event


@dataclasses.dataclass(frozen=True)
class Row:
    """What came of one attack: seconds of good requests, MiB of the server."""

    name: str
    p50: float
    p99: float
    good: int
    failed: int
    before: float
    after: float


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
            client = http.client.HTTPConnection(_HOST, port, timeout=_TIMEOUT)
            client.request("POST", path, body)
            client.getresponse().read()
            client.close()
        stop.wait(_WAIT)


# --- Attacks by connection ----------------------------------------------------


def _head(length: int) -> bytes:
    return (
        f"POST {PREDICT} HTTP/1.1\r\nHost: {_HOST}\r\n"
        f"Content-Length: {length}\r\n\r\n"
    ).encode()


@contextlib.contextmanager
def _connected(port: int) -> Iterator[socket.socket]:
    with contextlib.suppress(OSError):
        with socket.create_connection((_HOST, port), _TIMEOUT) as s:
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
            s = socket.create_connection((_HOST, port), _TIMEOUT)
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
        stop.wait(_WAIT)


def attacks(row: dict) -> dict[str, Callable[[int, Stop], None]]:
    """Name -> what one attacker does until it is stopped; "mixed" is last."""
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


# --- Measuring ----------------------------------------------------------------


class Server:
    """A `serving.serve` process.

    Args:
      saved_model_dir: what it serves.
      more: flags.
    """

    def __init__(self, saved_model_dir: str, *more: str):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "serving.serve", "--port=0", *more]
            + [f"--saved_model_dir={saved_model_dir}"],
            cwd=ROOT,
            env=os.environ | {"CUDA_VISIBLE_DEVICES": ""},
            stderr=subprocess.PIPE,
            text=True,
        )
        self.port = 0
        for line in self.process.stderr:
            if "serving" in line and "http://" in line:
                self.port = int(line.rsplit(":", 1)[1])
                break
        else:
            raise RuntimeError("the server did not start")
        # What it logs must not fill the pipe.
        threading.Thread(
            target=lambda: [None for _ in self.process.stderr], daemon=True
        ).start()

    def good_row(self) -> dict:
        """An instance for its raw-text function."""
        client = http.client.HTTPConnection(_HOST, self.port, timeout=_TIMEOUT)
        client.request("GET", "/about")
        about = json.loads(client.getresponse().read())["description"]
        inputs = about["signatures"]["serving_default"]["inputs"]
        return {
            name: "a short text" if len(spec["shape"]) == 1 else ["a", "b"]
            for name, spec in inputs.items()
        }

    def mib(self) -> float:
        """Its memory."""
        return psutil.Process(self.process.pid).memory_info().rss / (1 << 20)

    def close(self) -> None:
        """Ends it."""
        self.process.terminate()
        self.process.wait(_TIMEOUT)


def ask(port: int, row: dict, seconds: float, clients: int):
    """(seconds of every good answer, failures) of a few polite clients."""
    body = json.dumps({"instances": [row]}).encode()
    took: list[float] = []
    failed: list[str] = []
    end = time.monotonic() + seconds

    def client() -> None:
        while time.monotonic() < end:
            begin = time.perf_counter()
            try:
                c = http.client.HTTPConnection(_HOST, port, timeout=_TIMEOUT)
                c.request("POST", PREDICT, body)
                answer = c.getresponse()
                answer.read()
                c.close()
                if answer.status != 200:
                    failed.append(str(answer.status))
            except (OSError, http.client.HTTPException) as e:
                failed.append(type(e).__name__)
            took.append(time.perf_counter() - begin)
            time.sleep(_WAIT)

    threads = [threading.Thread(target=client) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return took, failed


def measure(server: Server, name: str, made, seconds: float, each: int) -> Row:
    """The good clients while `made`, a list of attacks, run `each` times."""
    row = server.good_row()
    stop = Stop()
    threads = [
        threading.Thread(target=attack, args=(server.port, stop), daemon=True)
        for attack in made
        for _ in range(each)
    ]
    before = server.mib()
    for thread in threads:
        thread.start()
    took, failed = ask(server.port, row, seconds, clients=4)
    stop.set()
    p50, p99 = np.percentile(took, [50, 99])
    after = server.mib()
    return Row(name, p50, p99, len(took), len(failed), before, after)


def run(
    server: Server, seconds: float, each: int, names: list[str], say=print
) -> list[Row]:
    """The quiet measurement, then one per attack, then all at once."""
    known = attacks(server.good_row())
    found = [measure(server, "quiet", [], seconds, 0)]
    for name in names or known:
        found.append(measure(server, name, [known[name]], seconds, each))
        say(line(found[-1], found[0].p99))
    chosen = [known[name] for name in names or known]
    found.append(measure(server, "all at once", chosen, seconds, 1))
    say(line(found[-1], found[0].p99))
    return found


def line(row: Row, quiet: float) -> str:
    """A row of the table."""
    return (
        f"| {row.name} | {1e3 * row.p50:.1f} | {1e3 * row.p99:.1f} | "
        f"{row.p99 / quiet:.1f} | {row.good} | {row.failed} | "
        f"{row.before:.0f} | {row.after:.0f} |"
    )


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--saved_model_dir", required=True)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--attackers", type=int, default=8)
    parser.add_argument("--only", default="", help="names, with commas")
    a = parser.parse_args()
    server = Server(a.saved_model_dir)
    try:
        print("| attack | p50 ms | p99 ms | p99 / quiet | asked | failed |"
              " MiB before | MiB after |")  # fmt: skip
        print("|---|---|---|---|---|---|---|---|")
        names = list(filter(None, a.only.split(",")))
        rows = run(server, a.seconds, a.attackers, names)
        print(line(rows[0], rows[0].p99))
        alive = server.process.poll() is None
    finally:
        server.close()
    if not alive or any(row.failed for row in rows):
        sys.exit(1)


if __name__ == "__main__":
    main()
