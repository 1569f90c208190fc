"""The attacks on a server, one row each.

Three groups: requests that are refused or dear, connections that misbehave, and
what a trial with raw sockets, texts and requests found worst.
"""

import json
import random

from tools.soak.hostile import HOLD, HOST, LEAVE, RESET, Attack

PREDICT = "/v1/models/xlnet:predict"
_TEXT = 50_000  # characters: the longest text that a server takes
_EVER = 1e6  # seconds
_CHUNKED = b"Transfer-Encoding: chunked\r\n"
_STAY = f"Host: {HOST}\r\n".encode()
_CLOSE = _STAY + b"Connection: close\r\n"


def attacks(row: dict) -> dict[str, Attack]:
    """Name -> attack.

    Args:
      row: one good instance of the server's raw-text function.
    """
    good = _rows([row])
    groups = (_bodies(row), _connections(good), _trial(row), _ours(row, good))
    return {name: a for group in groups for name, a in group.items()}


def get(path: str, *headers: bytes, stay: bool = False) -> bytes:
    """A GET request."""
    line = f"GET {path} HTTP/1.1\r\n".encode()
    return line + (_STAY if stay else _CLOSE) + b"".join(headers) + b"\r\n"


def post(
    body: bytes,
    path: str = PREDICT,
    length: int | None = None,
    headers: bytes = b"",
    stay: bool = False,
) -> bytes:
    """A POST request; `length` may differ from the body's, -1 = none."""
    head = f"POST {path} HTTP/1.1\r\n".encode()
    head += _STAY if stay else _CLOSE
    if length != -1:
        length = len(body) if length is None else length
        head += b"Content-Length: %d\r\n" % length
    return head + headers + b"\r\n" + body


def _chunks(size: int, count: int, end: bytes = b"0\r\n\r\n") -> bytes:
    return post(
        (b"%x\r\n%s\r\n" % (size, b"a" * size)) * count + end,
        length=-1,
        headers=_CHUNKED,
    )


def _rows(value) -> bytes:
    return json.dumps({"instances": value}, ensure_ascii=False).encode()


def _bodies(row: dict) -> dict[str, Attack]:
    """Requests that are refused or dear."""

    def ids(value, **more) -> bytes:
        inputs = {"input_ids": value} | more
        return json.dumps({"signature_name": "ids", "inputs": inputs}).encode()

    long = {
        k: "word " * 9000 if isinstance(v, str) else v for k, v in row.items()
    }
    unknown = json.dumps({"signature_name": "x", "instances": [row]})
    refused = {
        "deep lists": b'{"instances": ' + b"[" * 400_000,
        "deep objects": b'{"a": ' * 100_000,
        "huge text": _rows([row | {next(iter(row)): "x" * 900_000}]),
        "too many rows": _rows([row] * 5000),
        "memory: long ids": ids([[7] * 8000]),
        "memory: many long ids": ids([[7] * 4000] * 40),
        "mask of another length": ids([[7, 8]], input_mask=[[1]]),
        "ragged ids": ids([[7, 8], [7]]),
        "ids out of range": ids([[-1, 10**9]]),
        "numbers that are none": b'{"instances": [NaN, Infinity]}',
        "wrong types": _rows([3, None, [], {"x": {}}]),
        "not UTF-8": b'{"instances": ["\xff\xfe"]}',
        "not JSON": b"\x00\x01" * 1000,
        "unknown signature": unknown.encode(),
    }
    nowhere = post(_rows([row]), "/v1/models/../../etc/passwd:predict")
    return {
        name: Attack(post(b), status=400) for name, b in refused.items()
    } | {
        "unknown path": Attack(nowhere, status=404),
        "costly: long texts": Attack(post(_rows([long] * 16))),
        "costly: full batches": Attack(post(_rows([row] * 64))),
    }


def _connections(good: bytes) -> dict[str, Attack]:
    """Connections that are slow, idle, gone or greedy."""
    slow = {"step": 1, "pause": 0.1, "then": LEAVE}
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    return {
        "slow headers": Attack(b"POST / HTTP/1.1\r\nX: " + b"a" * 1000, **slow),
        "slow body": Attack(post(b"a" * 900, length=1000), **slow),
        "idle connections": Attack(b"", HOLD, seconds=_EVER, together=50),
        "leaving in a body": Attack(post(good, length=len(good) + 9), LEAVE),
        "leaving before the answer": Attack(post(good), LEAVE),
        "answers never read": Attack(
            post(good, stay=True), HOLD, times=20, seconds=1.0
        ),
        "pipelined": Attack(
            post(good, stay=True), times=50, seconds=1.0, status=200
        ),
        "a huge body, declared": Attack(
            post(b"x" * 100_000, length=1 << 40), status=413
        ),
        "a huge body, in chunks": Attack(
            post(chunk * 100, length=-1, headers=_CHUNKED), status=413
        ),
        "garbage": Attack(
            b"\x00" + random.Random(1).randbytes(5000) + b"\r\n\r\n", status=400
        ),
    }


def _trial(row: dict) -> dict[str, Attack]:
    """What a trial found worst, and its neighbours."""

    def line(text: bytes, more: bytes = b"") -> bytes:
        return text + b"\r\n" + _CLOSE + more + b"\r\n"

    health = b"GET /healthz HTTP/1.1"
    long_url = b"GET /?" + b"a" * 60_000 + b" HTTP/1.1"
    wrong = {
        "chunks of one byte": (_chunks(1, 300_000), 400),
        "an endless chunk size": (_chunks(1, 0, b"1" * 5000), 400),
        "a long chunk extension": (_chunks(1, 0, b"1;" + b"a" * 60_000), 400),
        "many trailers": (_chunks(1, 1, b"0\r\n" + b"a: b\r\n" * 15_000), 400),
        "a bad chunk": (_chunks(1, 1, b"zz\r\n\r\n"), 400),
        "15,000 headers": (line(health, b"a: b\r\n" * 15_000), 431),
        "a header of 60 KB": (
            line(health, b"X: %s\r\n" % (b"a" * 60_000)),
            431,
        ),
        "a folded header": (line(health, b"X: 1\r\n 2\r\n"), 400),
        "a URL of 60 KB": (line(long_url), 414),
        "a URL without an end": (long_url[:9000], 414),
        "bare LF": (line(health).replace(b"\r\n", b"\n"), 400),
        "HTTP/9.9": (line(b"GET /healthz HTTP/9.9"), 505),
        "both lengths": (post(b"0\r\n\r\n", headers=_CHUNKED), 400),
        "two lengths": (post(b"abc", headers=b"Content-Length: 4\r\n"), 400),
        "no Host": (health + b"\r\n\r\n", 400),
        "two Hosts": (line(health, _STAY), 400),
        "a foreign Host": (line(health).replace(HOST.encode(), b"a.b"), 403),
        "HEAD": (line(b"HEAD / HTTP/1.1"), 200),
        "TLS": (b"\x16\x03\x01\x02\x00\x01\x00" + b"\x01" * 500, 400),
        "an unknown method": (line(b"BREW /healthz HTTP/1.1"), 0),
    }
    made = {
        name: Attack(d, status=status) for name, (d, status) in wrong.items()
    }
    made["chunks of one byte, each alone"] = Attack(
        _chunks(1, 9000), step=6, status=400
    )
    for name, then in (("close", LEAVE), ("reset", RESET)):
        made[f"connect and {name}"] = Attack(b"", then, together=10)
    made["200 pipelined GET, never read"] = Attack(
        get("/", stay=True), HOLD, times=200, seconds=1.0
    )
    expect = post(b"", length=100, headers=b"Expect: 100-continue\r\n")
    made["Expect: 100-continue, then silence"] = Attack(
        expect, HOLD, seconds=5.0, together=10
    )
    made["metrics"] = Attack(get("/metrics"), status=200)
    made["the page"] = Attack(get("/"), status=200)
    return made | _texts(row)


def _texts(row: dict) -> dict[str, Attack]:
    """Texts that are dear to normalise or to cut into pieces."""
    half, key = _TEXT // 2, next(iter(row))
    refused = {"U+FDFA": "\ufdfa" * _TEXT}
    taken = {
        "alternating combining marks": "\u0301\u0327" * half,
        "badly sorted combining marks": "\u0301" * half + "\u0327" * half,
        "Hangul": "\ud7a3" * _TEXT,
        "no spaces": "x" * _TEXT,
    }
    return {
        name: Attack(post(_rows([row | {key: text}])), status=status)
        for texts, status in ((refused, 400), (taken, 0))
        for name, text in texts.items()
    }


def _ours(row: dict, good: bytes) -> dict[str, Attack]:
    """Ten more."""
    text = next(iter(row))
    escaped = json.dumps({"instances": [row | {text: "\0" * 9000}]}).encode()
    twice = b'{"a": 1, ' + b'"instances": 1, ' * 60_000 + b'"b": 2}'
    sent = {
        "the same key 60,000 times": (post(twice), 400),
        "a number of 900,000 digits": (
            post(b'{"instances": [' + b"9" * 900_000 + b"]}"),
            400,
        ),
        "escapes": (post(escaped), 400),
        "white space alone": (post(_rows([row | {text: " " * _TEXT}])), 0),
        "Tibetan vowel signs": (
            post(_rows([row | {text: "\u0f73" * _TEXT}])),
            0,
        ),
        "32 texts of other scripts": (
            post(_rows([row | {text: "\ufdfa\uac01\U0001f600" * 500}] * 32)),
            0,
        ),
    }
    made = {
        name: Attack(d, status=status) for name, (d, status) in sent.items()
    }
    return made | {
        "a wrong request, then 50 more": Attack(
            b"GET / HTTP/1.1\n\n" + get("/", stay=True) * 50, status=400
        ),
        "GET without a pause": Attack(
            get("/healthz", stay=True), times=300, seconds=0.2, status=200
        ),
        "a head in pieces of one byte": Attack(
            get("/healthz", b"X: " + b"a" * 2000 + b"\r\n"), step=1, status=200
        ),
        "answers read a little": Attack(
            post(good, stay=True) + get("/", stay=True) * 20,
            HOLD,
            times=3,
            step=500,
            seconds=2.0,
        ),
    }
