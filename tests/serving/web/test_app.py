"""The server's calls, limits and errors, around a model that only counts."""

import json
import logging

import numpy as np
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


def test_answers_that_are_no_numbers_are_an_error_of_the_server(
    client, monkeypatch
):
    """The label was the first one, its probability null."""

    def damaged(self, inputs, *args, **kwargs):
        outputs = sound(self, inputs, *args, **kwargs)
        wrong = np.full_like(outputs["probabilities"], np.nan)
        return outputs | {"probabilities": wrong}

    sound = FakeModel.__call__
    monkeypatch.setattr(FakeModel, "__call__", damaged)
    answer = client.post("/answer", json={"instances": ["a"]})
    assert answer.status_code == 500
    assert "probabilities is not finite" in answer.json()["error"]
    exact = client.post(PREDICT, json={"instances": [{"text": "a"}]})
    assert exact.status_code == 200 and "NaN" in exact.text


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


def test_what_a_model_refuses_may_be_a_text_without_symbols(client):
    """A zero-width space before a model without line ends: it named ids."""
    answer = client.post(PREDICT, content=BAD_BODIES["refused"])
    assert "of each text the vocabulary must have" in answer.json()["error"]


def test_other_errors(client, caplog):
    large = client.post(PREDICT, content=b"x" * 3000)
    assert large.status_code == 413 and "2000" in large.json()["error"]

    def chunks():
        yield from [b"x" * 1000] * 5

    assert client.post(PREDICT, content=chunks()).status_code == 413
    for name, status in (("gzip", 415), ("br", 415), ("Identity", 200)):
        packed = client.post(
            PREDICT,
            content=b'{"instances": ["a"]}',
            headers={"Content-Encoding": name},
        )
        assert packed.status_code == status, packed.text
        assert status == 200 or f"'{name}'" in packed.json()["error"]
    assert client.post("/v1/models/y:predict", json={}).status_code == 404
    assert client.get("/v1/models/y").status_code == 404
    for answer, status in (
        (client.get(PREDICT), 405),
        (client.get("/nothing"), 404),
        (client.get("/healthz/", follow_redirects=False), 404),
        (client.post(PREDICT + "/", json={}, follow_redirects=False), 404),
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
    for path in ("/v1/models/xlnet", "/v1/models/xlnet/metadata"):
        asked = client.get(path + "?version=99&label=other")  # as :predict
        assert asked.status_code == 200 and asked.json()
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
