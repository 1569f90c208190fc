"""Bodies become rows: settings that all rows share, or large ones."""

import json

import numpy as np
import pytest

pytest.importorskip("fastapi")
testclient = pytest.importorskip("fastapi.testclient")

from common.errors import UserError  # noqa: E402
from serving.options import ServerOptions  # noqa: E402
from serving.web import app as app_lib  # noqa: E402
from serving.web import workers  # noqa: E402
from serving.web.forms.requests import parse_body, parse_request  # noqa: E402

PREDICT = "/v1/models/transformer_xl:predict"
WHOLE = {"max_new_tokens": 3, "temperature": 0.5, "top_k": 2, "seed": 7}
DTYPES = {"max_new_tokens": "int32", "temperature": "float32"}
TEXT = {"text": {"dtype": "string", "shape": [None]}}
OUT = {"x": {"dtype": "float32", "shape": [None, None]}}


class Model:
    """Gives the settings that it was asked with, per row."""

    version = "1"
    variable_shapes = {}
    signature_defs = {}
    description = {
        "labels": [],
        "head": "language_model",
        "model_type": "transformer_xl",
        "unit": "char",
        "max_seq_length": 16,
        "signatures": {
            "serving_default": {"inputs": TEXT, "outputs": OUT},
            "generate_text": {
                "inputs": TEXT
                | {
                    name: {"dtype": DTYPES.get(name, "int32"), "shape": []}
                    for name in WHOLE
                },
                "outputs": OUT,
            },
        },
    }

    def __call__(self, inputs, signature, stop=None):
        rows = len(inputs["text"])
        settings = [inputs.get(name, 0) for name in WHOLE]
        assert all(np.ndim(value) == 0 for value in settings)
        return {"x": np.tile(np.asarray(settings, np.float32), (rows, 1))}


@pytest.fixture(scope="module")
def client():
    options = ServerOptions(max_tokens=100, max_cost=5000)
    app = app_lib.build_app(Model(), options)
    with testclient.TestClient(app, raise_server_exceptions=False) as client:
        yield client


def post(client, **body):
    body["signature_name"] = body.pop("name", "generate_text")
    answer = client.post(PREDICT, json=body)
    return answer.status_code, answer.json()


def test_settings_are_given_once_or_with_every_row(client):
    wanted = [3.0, 0.5, 2.0, 7.0]
    code, found = post(client, inputs={"text": ["a", "b"]} | WHOLE)
    assert (code, found) == (200, {"outputs": [wanted, wanted]})
    rows = [{"text": t} | WHOLE for t in "ab"]
    code, found = post(client, instances=rows)
    assert (code, found) == (200, {"predictions": [wanted, wanted]})
    rows[1] = rows[1] | {"seed": 8}
    code, found = post(client, instances=rows)
    assert code == 400 and "instances[1].seed" in found["error"]


@pytest.mark.parametrize(
    "change,said",
    [
        ({"max_new_tokens": 0}, "max_new_tokens: wanted"),
        ({"temperature": -1}, "temperature: wanted"),
        ({"top_k": -2}, "found -2"),
        ({"seed": 0.5}, "seed: wanted numbers"),
        ({"seed": [1]}, "seed: wanted the shape"),
        ({"max_new_tokens": 80}, "--max_cost"),
        ({"max_new_tokens": 40, "text": "x" * 90}, "--max_tokens"),
    ],
)
def test_settings_out_of_range(client, change, said):
    code, found = post(client, instances=[{"text": "a"} | WHOLE | change])
    assert code == 400 and said in found["error"]


def test_a_left_to_right_model_reads_all_of_a_text(client):
    """Nothing cuts it: its length is bounded as that of ids is."""
    code, _ = post(client, name="serving_default", instances=["x" * 99])
    assert code == 200
    code, found = post(client, name="serving_default", instances=["x" * 100])
    assert code == 400 and "--max_tokens" in found["error"]


def test_the_model_is_called_by_the_name_of_its_encoder(client):
    assert client.get("/v1/models/transformer_xl").status_code == 200
    assert client.get("/v1/models/xlnet").status_code == 404
    assert client.get("/about").json()["name"] == "transformer_xl"


@pytest.mark.slow
def test_large_requests_and_answers_go_through_the_helper(client, monkeypatch):
    calls = []
    run = workers.Helper.run

    async def counted(self, function, *arguments):
        calls.append(function.__name__)
        return await run(self, function, *arguments)

    monkeypatch.setattr(workers.Helper, "run", counted)
    small = {"signature_name": "serving_default", "instances": ["a"] * 9}
    answers = [client.post(PREDICT, json=small) for _ in "ab"]
    monkeypatch.setattr(app_lib, "LARGE_BODY", 10)
    monkeypatch.setattr(app_lib, "LARGE_ANSWER", 10)
    assert not calls
    answers.append(client.post(PREDICT, json=small))
    assert calls == ["parse_request", "predictions"]
    assert len({answer.content for answer in answers}) == 1
    bad = client.post(PREDICT, content=b'{"instances": [')
    assert bad.status_code == 400 and "not valid JSON" in bad.json()["error"]
    friendly = client.post("/answer", json=small)
    assert friendly.json() == {"answers": [{"x": [0.0] * 4}] * 9}
    assert calls[2:] == ["parse_request", "parse_request", "answers"]


PAIRS = {
    "signatures": {
        "serving_default": {
            "inputs": {"b": TEXT["text"], "a": TEXT["text"]},
            "outputs": {},
        }
    }
}


def parse(body):
    return parse_request(json.dumps(body).encode(), PAIRS, ServerOptions())


@pytest.mark.parametrize("name", [{}, {"signature_name": ""}])
def test_columns_and_rows_are_the_same_request(name):
    rows = [{"a": "x", "b": "y"}, {"b": "w", "a": "v"}]
    found = parse(name | {"instances": rows})
    assert (found.rows, found.row_format) == (rows, True)
    columns = {"a": ["x", "v"], "b": ["y", "w"]}
    found = parse(name | {"inputs": columns})
    assert (found.rows, found.row_format) == (rows, False)
    assert found.signature == "serving_default"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"inputs": {"a": ["x"], "b": ["y", "z"]}}, "differ in length"),
        ({"inputs": {"a": "x", "b": ["y"]}}, "must be a list over rows"),
        ({"inputs": {"a": ["x"]}}, "an object with the keys ['b', 'a']"),
        ({"inputs": ["x"]}, "an object with the keys ['b', 'a']"),
        ({"inputs": {"a": [], "b": []}}, "wanted 1 to 64 instances, found 0"),
        ({"instances": {"a": "x", "b": "y"}}, '"instances" must be a list'),
        ({"instances": [{"a": "x", "b": "y"}, "z"]}, "instances[1]: wanted an"),
        ({"instances": [{"a": "x"}]}, "the keys ['b', 'a'], found ['a']"),
        ({"instances": [{"a": "x", "b": 3}]}, "instances[0].b: wanted a str"),
        ({"instance": []}, "unknown key 'instance'"),
        ({"signature_name": "x" * 99, "inputs": []}, "'serving_default'], rec"),
    ],
)
def test_a_body_that_breaks_the_form_is_one_line(body, said):
    with pytest.raises(UserError) as e:
        parse(body)
    message = str(e.value)
    assert said in message and len(message) < 200 and "\n" not in message


def test_a_key_that_is_given_twice_is_refused():
    """The last value was answered."""
    body = b'{"instances": [{"text": "a", "text": "b"}]}'
    with pytest.raises(UserError, match="has the key 'text' twice"):
        parse_body(body)
