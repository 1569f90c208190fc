"""API keys and certificates: who gets in, and what a wrong file says."""

import asyncio
import hashlib
import hmac
import re
import ssl
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
httpx = pytest.importorskip("httpx")
testclient = pytest.importorskip("fastapi.testclient")

from common.errors import UserError  # noqa: E402
from serving.options import ServerOptions  # noqa: E402
from serving.web.app import build_app  # noqa: E402
from serving.web.transport import access  # noqa: E402
from tests.serving.web.counting_model import FakeModel  # noqa: E402

ADA, BOB, EVE = "a" * 32, "Bob-" + 40 * "b", "e" * 31
PREDICT = "/v1/models/xlnet:predict"
BODY = {"instances": ["abc"]}


def line(name, key):
    return f"{name} sha256:{hashlib.sha256(key.encode()).hexdigest()}\n"


KEYS = "# who may ask\n\n" + line("ada", ADA) + line("eve", EVE)
KEYS += line("bob.2", BOB).replace("\n", "  # the second one\r\n")


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "keys.txt"
    file.write_text(KEYS)
    return file


@pytest.fixture
def client(path):
    app = build_app(FakeModel(), ServerOptions(api_keys_file=str(path)))
    with testclient.TestClient(app, raise_server_exceptions=False) as client:
        yield client


CALLS = [
    ("POST", PREDICT),
    ("POST", "/answer"),
    ("GET", "/v1/models/xlnet"),
    ("GET", "/v1/models/xlnet/metadata"),
    ("GET", "/about"),
    ("GET", "/metrics"),
    ("GET", "/openapi.json"),
    ("GET", "/nothing"),
    ("GET", "/healthz/"),
    ("PUT", "/v1/models/other"),
]


@pytest.mark.parametrize(("method", "call"), CALLS)
def test_every_call_needs_a_key(client, method, call):
    for headers in ({}, {"X-API-Key": "x" * 40}):
        answer = client.request(method, call, json=BODY, headers=headers)
        assert answer.status_code == 401
        assert list(answer.json()) == ["error"]
        challenge = answer.headers["www-authenticate"]
        assert challenge.startswith("Bearer realm=")
        assert ("invalid_token" in challenge) == bool(headers)
        assert answer.headers["connection"] == "close"
    known = client.request(method, call, json=BODY, headers={"x-api-key": ADA})
    assert known.status_code != 401


@pytest.mark.parametrize("call", ["/", "/healthz", "/readyz"])
def test_the_page_and_the_probes_are_open(client, call):
    assert client.get(call).status_code == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([("Authorization", f"Bearer {ADA}")], 200),
        ([("Authorization", f"bEARER   {BOB} ")], 200),
        ([("X-API-Key", BOB)], 200),
        ([("Authorization", "Basic YTpi"), ("X-API-Key", ADA)], 200),
        ([("Authorization", f"Bearer {ADA}"), ("X-API-Key", ADA)], 200),
        ([("Authorization", f"Bearer {ADA}"), ("X-API-Key", BOB)], 401),
        ([("X-API-Key", ADA), ("X-API-Key", BOB)], 401),
        ([("Authorization", f"Basic {ADA}")], 401),
        ([("Authorization", ADA)], 401),
        ([("Authorization", "Bearer ")], 401),
        ([("X-API-Key", "")], 401),
        ([("X-API-Key", ADA[:-1])], 401),
        ([("X-API-Key", ADA + "a")], 401),
        ([("X-API-Key", EVE)], 401),  # in the file, but too short
        ([("X-API-Key", "\xe9" * 40)], 401),
        ([("X-API-Key", "a" * 60_000)], 401),
    ],
)
def test_a_key_comes_in_one_of_two_headers(client, headers, status):
    raw = [(k.encode(), v.encode("latin-1")) for k, v in headers]
    answer = client.post(PREDICT, json=BODY, headers=raw)
    assert answer.status_code == status, answer.text


def test_calls_are_counted_by_the_name_of_their_key(client):
    for key in (ADA, ADA, BOB, "x" * 32, ""):
        client.post("/answer", json={}, headers={"X-API-Key": key})
    text = client.get("/metrics", headers={"X-API-Key": BOB}).text
    assert 'xlnet_key_requests_total{key="ada"} 2.0' in text
    assert 'xlnet_key_requests_total{key="bob.2"} 2.0' in text
    assert "xlnet_unauthorized_total 2.0" in text
    assert ADA not in text and "sha256" not in text


def test_openapi_says_who_needs_a_key(client):
    described = client.get("/openapi.json", headers={"X-API-Key": ADA}).json()
    schemes = described["components"]["securitySchemes"]
    assert {s["type"] for s in schemes.values()} == {"http", "apiKey"}
    assert described["security"] == [{name: []} for name in schemes]
    for path, calls in described["paths"].items():
        is_open = path in ("/", "/healthz", "/readyz")
        for call in calls.values():
            assert ("401" in call["responses"]) != is_open
            assert call.get("security") == ([] if is_open else None)


def test_without_a_file_all_may_ask():
    with testclient.TestClient(build_app(FakeModel(), ServerOptions())) as c:
        assert c.post(PREDICT, json=BODY).status_code == 200
        assert c.get("/metrics").status_code == 200


def test_every_key_is_compared_whole(path, monkeypatch):
    """So the time says neither which key fits nor how much of one."""
    keys, seen = access.Keys(str(path)), []
    compare = hmac.compare_digest

    def spy(one, other):
        seen.append((one, other))
        return compare(one, other)

    monkeypatch.setattr(access.hmac, "compare_digest", spy)
    assert keys.name_of(ADA.encode()) == "ada"
    assert keys.name_of(b"x" * 32) is None
    assert len(seen) == 6 and all(len(a) == len(b) == 32 for a, b in seen)


BAD_FILES = {
    "empty": ("", "1 to 1000 lines"),
    "comments": ("# nobody\n\n", "1 to 1000 lines"),
    "a plain key": (line("ada", ADA) + "bob " + BOB, "line 2: wanted NAME"),
    "a short hash": ("ada sha256:" + "a" * 63, "line 1: wanted NAME"),
    "another hash": ("ada md5:" + "a" * 64, "line 1: wanted NAME"),
    "no name": (line("", ADA), "line 1: wanted NAME"),
    "a name with escapes": (line("a\x1b[1m", ADA), "line 1: wanted NAME"),
    "a name twice": (line("ada", ADA) + line("ada", BOB), "line 2: the name"),
    "a key twice": (line("ada", ADA) + line("bob", ADA), "line 2: the name"),
    "other bytes": ("\x00\xff" * 100, "line 1: wanted NAME"),
    "too large": ("#\n" * 200_000, "at most 200000 bytes"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_bad_file_is_one_line(path, name, caplog):
    """At the start it is an error; later the keys of before stay."""
    content, wanted = BAD_FILES[name]
    keys = access.Keys(str(path))
    path.write_text(content, encoding="latin-1")
    options = ServerOptions(api_keys_file=str(path))
    with pytest.raises(UserError) as e:
        access.check(options)
    message = str(e.value)
    assert wanted in message and str(path) in message
    assert "\n" not in message and BOB not in message and "\x1b" not in message
    with pytest.raises(UserError):
        build_app(FakeModel(), options)
    for _ in range(3):
        keys.look()
    assert [r.getMessage() for r in caplog.records] == [
        f"the keys of before stay: {message}"
    ]
    assert keys.name_of(ADA.encode()) == "ada"


def test_a_missing_file_is_one_line(path, caplog):
    keys = access.Keys(str(path))
    path.unlink()
    with pytest.raises(UserError, match="--api_keys_file=.* No such file"):
        access.check(ServerOptions(api_keys_file=str(path)))
    keys.look()
    keys.look()
    assert len(caplog.records) == 1
    assert keys.name_of(BOB.encode()) == "bob.2"
    path.write_text(KEYS)  # as before it went
    keys.look()
    path.unlink()
    keys.look()
    assert len(caplog.records) == 2


@pytest.mark.long
def test_a_changed_file_is_read_while_the_server_runs(
    path, client, monkeypatch
):
    monkeypatch.setattr(access, "_LOOK_SECONDS", 0.01)
    fresh = "f" * 32

    def status(key):
        return client.get("/about", headers={"X-API-Key": key}).status_code

    assert (status(ADA), status(fresh)) == (200, 401)

    async def change():
        path.write_text(line("new", fresh))
        for _ in range(500):
            if status(fresh) == 200:
                return
            await asyncio.sleep(0.01)

    asyncio.run(change())
    assert (status(ADA), status(fresh)) == (401, 200)


def docs_block(word: str) -> str:
    text = (
        Path(__file__).parents[4] / "docs/guides/serving/deploy.md"
    ).read_text()
    blocks = re.findall(r"(?:^    .*\n)+", text, re.M)
    (found,) = [b for b in blocks if word in b]
    return re.sub(r"^    ", "", found, flags=re.M)


def test_the_documented_commands_make_a_key(tmp_path):
    done = subprocess.run(
        ["bash", "-euc", docs_block("openssl rand")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    key = done.stdout.strip()
    keys = access.Keys(str(tmp_path / "keys.txt"))
    assert keys.name_of(key.encode()) == "ada"
    assert key not in (tmp_path / "keys.txt").read_text()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """(certificate, key, encrypted key), self-signed, made by OpenSSL."""
    folder = tmp_path_factory.mktemp("tls")
    cert, key, locked = (folder / n for n in ("cert.pem", "key.pem", "l.pem"))
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-nodes"),
            *("-pkeyopt", "ec_paramgen_curve:prime256v1", "-days", "2"),
            *("-subj", "/CN=localhost", "-keyout", str(key)),
            *("-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"),
            *("-out", str(cert)),
        ],
        check=True,
        capture_output=True,
    )
    subprocess.run(
        [
            *("openssl", "pkey", "-in", str(key), "-aes256"),
            *("-passout", "pass:secret", "-out", str(locked)),
        ],
        check=True,
        capture_output=True,
    )
    return str(cert), str(key), str(locked)


def test_a_bad_certificate_is_one_line(certificate, tmp_path):
    cert, key, locked = certificate
    other = tmp_path / "other.pem"
    other.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n")
    both = tmp_path / "both.pem"
    both.write_bytes(Path(cert).read_bytes() + Path(key).read_bytes())
    access.check(ServerOptions(ssl_certfile=cert, ssl_keyfile=key))
    access.check(ServerOptions(ssl_certfile=str(both)))
    for certfile, keyfile, wanted in (
        (cert, "", "wanted a certificate and its private key"),
        (cert, locked, "encrypted"),
        (cert, cert, "wanted a certificate and its private key"),
        (key, key, "wanted a certificate and its private key"),
        (str(other), key, "wanted a certificate and its private key"),
        (cert, str(tmp_path / "none.pem"), "none.pem: No such file"),
        (str(tmp_path), "", "Is a directory"),
    ):
        options = ServerOptions(ssl_certfile=certfile, ssl_keyfile=keyfile)
        with pytest.raises(UserError, match=f"--ssl_certfile=.*{wanted}") as e:
            access.check(options)
        assert "\n" not in str(e.value)
    with pytest.raises(UserError, match="give --ssl_certfile"):
        ServerOptions(ssl_keyfile=key)


@pytest.fixture(scope="module")
def encrypted(certificate, tmp_path_factory):
    """HOST:PORT of `listen.run` with keys and a certificate."""
    cert, key, _ = certificate
    file = tmp_path_factory.mktemp("keys") / "keys.txt"
    file.write_text(KEYS)
    server = subprocess.Popen(
        [
            *(
                sys.executable,
                "-m",
                "tests.serving.web.slow_server",
                "20",
                "20",
            ),
            *(f"api_keys_file={file}", f"ssl_certfile={cert}"),
            f"ssl_keyfile={key}",
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield int(server.stdout.readline())
    finally:
        server.terminate()
        server.wait(30)
        server.stdout.close()


@pytest.mark.slow
def test_real_clients_speak_https(encrypted, certificate):
    cert, url = certificate[0], f"https://localhost:{encrypted}"
    context = ssl.create_default_context(cafile=cert)
    bearer = {"Authorization": f"Bearer {BOB}"}
    with httpx.Client(verify=context, headers=bearer) as client:
        answer = client.post(url + PREDICT, json={"instances": ["0"]})
        assert answer.status_code == 200, answer.text
        assert answer.json()["predictions"] == [{"x": 1.0, "y": 1.0}]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert client.get(url + "/", headers={"Authorization": ""}).is_success
    with httpx.Client(verify=context) as client:
        assert client.get(url + "/about").status_code == 401
    with (
        httpx.Client() as client,  # knows no such certificate
        pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"),
    ):
        client.get(url + "/healthz")
    with (
        httpx.Client() as client,
        pytest.raises(httpx.RemoteProtocolError),
    ):
        client.get(f"http://localhost:{encrypted}/healthz")
    request = urllib.request.Request(
        url + PREDICT, b'{"instances": ["0"]}', {"X-API-Key": ADA}
    )
    with urllib.request.urlopen(request, context=context) as answer:
        assert answer.status == 200
    for extra, wanted in (([], "401"), (["-H", f"X-API-Key: {ADA}"], "200")):
        done = subprocess.run(
            [
                *("curl", "-sS", "--cacert", cert, *extra, "-o", "/dev/null"),
                *("-w", "%{http_code}", url + "/about"),
            ],
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == wanted
