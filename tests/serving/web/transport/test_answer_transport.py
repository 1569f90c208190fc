"""Answers before the whole request has come, and those that have begun."""

import contextlib
import http.client
import ssl
import subprocess

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("httptools")

from serving.options import ServerOptions
from serving.web.transport.answer_transport import (
    AnswerTransport,
    RestTransport,
)
from tests.serving.web.slow_server import SleepyModel, in_thread

LARGEST = 500_000  # bytes of a body


@contextlib.contextmanager
def served(**options):
    """The port of a server in a thread."""
    options = ServerOptions(max_body_bytes=LARGEST, **options)
    with in_thread(SleepyModel(), options) as server:
        yield server.port


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificate")
    cert, key = str(folder / "cert.pem"), str(folder / "key.pem")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-nodes"),
            *("-pkeyopt", "ec_paramgen_curve:prime256v1"),
            *("-subj", "/CN=localhost", "-days", "2"),
            *("-keyout", key, "-out", cert),
        ],
        check=True,
        capture_output=True,
    )
    return {"ssl_certfile": cert, "ssl_keyfile": key}


@pytest.mark.long
@pytest.mark.parametrize("encrypted", [False, True])
def test_an_early_answer_is_read_by_who_sends_the_whole_body(
    certificate, encrypted
):
    """With HTTPS the connection was cut in the middle of the body."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with served(**(certificate if encrypted else {})) as port:
        for path, size, status in (
            ("/nowhere", 300, 404),
            ("/nowhere", LARGEST, 404),
            ("/answer", LARGEST + 300_000, 413),
        ):
            kind, more = http.client.HTTPConnection, {}
            if encrypted:
                kind, more = http.client.HTTPSConnection, {"context": context}
            client = kind("127.0.0.1", port, timeout=10, **more)
            client.putrequest("POST", path)
            client.putheader("Content-Length", str(size))
            client.endheaders()
            for _ in range(10):
                client.send(b"a" * (size // 10))
            answer = client.getresponse()
            assert answer.status == status and b'"error"' in answer.read()
            closes = answer.headers["connection"] == "close"
            assert closes or size < LARGEST
            client.close()


class Transport:
    """Notes what it is told."""

    def __init__(self):
        self.told = []

    def write(self, data):
        self.told.append(data)

    def close(self):
        self.told.append("closed")

    def is_closing(self):
        return "closed" in self.told


def test_it_closes_where_nobody_else_does():
    transport, lingers = Transport(), True
    answer = AnswerTransport(transport, lambda: lingers)
    answer.write(b"a")
    answer.close()
    assert transport.told == [b"a"] and not answer.is_closing()
    lingers = False
    answer.close()
    assert transport.told == [b"a", "closed"] and answer.is_closing()


def test_what_has_been_sent_is_left_out_once():
    transport = Transport()
    rest = RestTransport(transport, 3)
    for data in (b"abcde", b"abc"):
        rest.write(data)
    rest.close()
    assert transport.told == [b"de", b"abc", "closed"] and rest.is_closing()
