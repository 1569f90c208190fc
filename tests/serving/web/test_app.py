"""The server's calls, limits and errors, around a model that only counts."""

import json
import logging
import threading
import time

import pytest

fastapi = pytest.importorskip("fastapi")
testclient = pytest.importorskip("fastapi.testclient")

from serving.options import ServerOptions  # noqa: E402
from serving.web.app import build_app  # noqa: E402
from tests.serving.web.counting_model import PREDICT, FakeModel  # noqa: E402


@pytest.fixture
def model():
    return FakeModel()


@pytest.fixture
def client(model):
    options = ServerOptions(
        max_body_bytes=2000, max_chars=100, max_instances=4, timeout_s=0.5
    )
    app = build_app(model, options)
    with testclient.TestClient(app, raise_server_exceptions=False) as client:
        yield client


def test_friendly_answers(client):
    rows = {"instances": [{"text": "abcd"}, "ab"]}
    answer = client.post("/answer", json=rows)
    assert answer.status_code == 200
    assert answer.json()["answers"] == [
        {
            "length": 4.0,
            "probabilities": {"short": 0.25, "long": 0.75},
            "label": "long",
        },
        {
            "length": 2.0,
            "probabilities": {"short": 0.5, "long": 0.5},
            "label": "long",
        },
    ]
    bad = client.post("/answer", json={"instances": [3]})
    assert bad.status_code == 400 and "error" in bad.json()


BAD_BODIES = {
    "no json": b"{",
    "not utf-8": b'{"instances": ["\xff"]}',
    "a list": b"[]",
    "nothing": b"",
    "no instances": b"{}",
    "both": b'{"instances": ["a"], "inputs": ["a"]}',
    "unknown key": b'{"instances": ["a"], "x": 1}',
    "empty list": b'{"instances": []}',
    "too many": b'{"instances": ["a", "a", "a", "a", "a"]}',
    "number": b'{"instances": [3]}',
    "null": b'{"instances": null}',
    "wrong keys": b'{"instances": [{"txt": "a"}]}',
    "empty text": b'{"instances": [""]}',
    "white space": b'{"instances": [" \\n "]}',
    "NUL": b'{"instances": ["a\\u0000b"]}',
    "surrogate": b'{"instances": ["\\ud800"]}',
    "long text": json.dumps({"instances": ["x" * 101]}).encode(),
    "signature": b'{"signature_name": "x", "instances": ["a"]}',
    "signature type": b'{"signature_name": [], "instances": ["a"]}',
    "nan": b'{"signature_name": "ids", "instances": [[NaN]]}',
    "ragged": b'{"signature_name": "ids", "instances": [[1, [2]]]}',
    "two shapes": b'{"signature_name": "ids", "instances": [[1], [1, 2]]}',
    "strings": b'{"signature_name": "ids", "instances": [["a"]]}',
    "bool": b'{"signature_name": "ids", "instances": [[true]]}',
    "too big": b'{"signature_name": "ids", "instances": [[99999999999]]}',
    "huge": b'{"signature_name": "ids", "instances": [[1' + b"0" * 400 + b"]]}",
    "no numbers": b'{"signature_name": "ids", "instances": [[]]}',
    "refused": b'{"signature_name": "ids", "instances": [[-1]]}',
    "nested": b'{"instances": ' + b"[" * 900 + b"]" * 900 + b"}",
}


@pytest.mark.parametrize("name", BAD_BODIES)
def test_bad_requests_get_one_clear_line(client, name):
    answer = client.post(PREDICT, content=BAD_BODIES[name])
    assert answer.status_code == 400, answer.text
    message = answer.json()["error"]
    assert 10 < len(message) < 300 and "\n" not in message
    assert "Traceback" not in message and "/secret" not in message
    assert client.post(PREDICT, json={"instances": ["ok"]}).status_code == 200


def test_other_errors(client, caplog):
    large = client.post(PREDICT, content=b"x" * 3000)
    assert large.status_code == 413 and "2000" in large.json()["error"]

    def chunks():
        yield from [b"x" * 1000] * 5

    assert client.post(PREDICT, content=chunks()).status_code == 413
    assert client.post("/v1/models/y:predict", json={}).status_code == 404
    assert client.get("/v1/models/y").status_code == 404
    for answer, status in (
        (client.get(PREDICT), 405),
        (client.get("/nothing"), 404),
        (client.put("/healthz"), 405),
        (client.get("/v1/models/xlnet/versions/8"), 404),
        (client.get("/v1/models/xlnet/labels/new"), 404),
    ):
        assert answer.status_code == status
        assert list(answer.json()) == ["error"]
    with caplog.at_level(logging.CRITICAL):
        crash = client.post(PREDICT, json={"instances": ["crash"]})
    assert crash.status_code == 500
    assert crash.json() == {"error": "internal error"}


def test_status_metadata_health_metrics_and_page(client):
    status = client.get("/v1/models/xlnet").json()["model_version_status"]
    assert status[0]["state"] == "AVAILABLE" and status[0]["version"] == "7"
    about = client.get("/about").json()
    assert about["description"]["labels"] == ["short", "long"]
    assert client.get("/healthz").json() == {"status": "ok"}
    client.post(PREDICT, json={"instances": ["a"]})
    client.post(PREDICT, json={})
    text = client.get("/metrics").text
    assert 'xlnet_requests_total{status="200"} 1.0' in text
    assert 'xlnet_requests_total{status="400"} 1.0' in text
    page = client.get("/")
    assert page.status_code == 200
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "http://" not in page.text and "https://" not in page.text


def test_requests_at_the_same_time_share_a_batch(client, model):
    model.gate.clear()
    answers = []

    def ask(i):
        body = {"instances": ["x" * (i + 1)]}
        answers.append((i, client.post(PREDICT, json=body).json()))

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(9)]
    for thread in threads:
        thread.start()
    time.sleep(0.2)
    model.gate.set()
    for thread in threads:
        thread.join()
    for i, answer in answers:
        assert answer["predictions"][0]["length"] == i + 1
    assert sum(model.batches) == 9 and len(model.batches) < 9


def test_a_crash_spares_its_neighbours(client, model):
    model.gate.clear()
    codes = {}

    def ask(text):
        answer = client.post(PREDICT, json={"instances": [text]})
        codes[text] = answer.status_code

    threads = [
        threading.Thread(target=ask, args=(t,)) for t in ("a", "crash", "bb")
    ]
    for thread in threads:
        thread.start()
    time.sleep(0.1)
    model.gate.set()
    for thread in threads:
        thread.join()
    assert codes == {"a": 200, "crash": 500, "bb": 200}


def test_a_slow_answer_times_out_and_a_full_queue_refuses(model):
    options = ServerOptions(timeout_s=0.2, max_queue=1)
    model.gate.clear()
    with testclient.TestClient(build_app(model, options)) as client:
        codes = []

        def ask():
            answer = client.post(PREDICT, json={"instances": ["a"]})
            codes.append(answer.status_code)

        threads = [threading.Thread(target=ask) for _ in range(6)]
        for thread in threads:
            thread.start()
            time.sleep(0.02)
        for thread in threads:
            thread.join()
        model.gate.set()
        assert set(codes) == {503, 504}
        assert client.post(PREDICT, json={"instances": ["a"]}).is_success


def test_openapi_names_the_errors(client):
    paths = client.get("/openapi.json").json()["paths"]
    predict = paths["/v1/models/{name}:predict"]["post"]
    assert set(predict["responses"]) == {
        "200",
        "400",
        "404",
        "408",
        "413",
        "503",
        "504",
    }
    schema = predict["requestBody"]["content"]["application/json"]["schema"]
    assert schema["properties"]["instances"]["maxItems"] == 4


def test_other_sites_and_other_names_are_refused(model):
    options = ServerOptions(allowed_hosts=("127.0.0.1", "localhost", "[::1]"))
    body = {"instances": ["a"]}
    with testclient.TestClient(build_app(model, options)) as client:

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
