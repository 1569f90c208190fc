"""Settings that a whole request has, and how the server orders its work."""

import asyncio
import time

import numpy as np
import pytest

pytest.importorskip("fastapi")
testclient = pytest.importorskip("fastapi.testclient")

from serving.options import ServerOptions  # noqa: E402
from serving.web import app as app_lib  # noqa: E402
from serving.web import cost, lanes, workers  # noqa: E402

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


def _order(weights: list[int], per_run: int) -> list[int]:
    """Which job's rows each run holds; the first run teaches the time."""

    async def run() -> list[int]:
        seen: list[int] = []

        def model(signature, rows, stop):
            seen.append(rows[0]["job"])
            return [0] * len(rows)

        runs = lanes.Runs(model, tokens=1000, row_weight=per_run)
        options = ServerOptions(max_batch_size=8, max_wait_ms=1)
        made = lanes.Lanes(runs, options)
        made.costly.token_seconds = 1.0
        made.quick.last_used = time.monotonic()  # so runs are slices
        made.quick_weight = 0
        tasks = [
            asyncio.ensure_future(
                made.submit("s", [{"job": i}] * (8 if w > 9 else 1), w, w)
            )
            for i, w in enumerate(weights)
        ]
        await asyncio.gather(*tasks)
        await made.stop()
        return seen

    return asyncio.run(run())


def test_small_requests_go_before_large_ones():
    """A request of 8 rows of weight 20 has a run per two of them."""
    order = _order([20, 1, 20, 2], per_run=40)
    assert order[:2] == [1, 3]
    assert sorted(order[2:]) == [0] * 4 + [2] * 4
    assert set(order[2:4]) == {0, 2}  # neither waits for all of the other


def test_the_time_of_a_text_counts_its_characters():
    budget = cost.Budget(
        Model.description | {"head": "classification"},
        None,
        ServerOptions(),
        10**9,
    )
    short = budget.check("serving_default", [{"text": "x" * 10}])
    long = budget.check("serving_default", [{"text": "x" * 8000}])
    assert short.tokens < long.tokens == 16
    assert long.cost == 16 and long.weight == 16 + 1000
