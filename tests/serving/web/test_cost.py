"""Bounds of memory and time: what a request may take, and who waits for it."""

import dataclasses
import re
import threading
import time

import numpy as np
import pytest

pytest.importorskip("fastapi")
testclient = pytest.importorskip("fastapi.testclient")

from common.errors import UserError  # noqa: E402
from serving.options import ServerOptions  # noqa: E402
from serving.web.app import build_app  # noqa: E402

PREDICT = "/v1/models/xlnet:predict"
ROW = {"dtype": "int32", "shape": [None, None]}
DESCRIPTION = {
    "head": "pretraining",
    "labels": [],
    "max_seq_length": 64,
    "vocab_size": 1000,
    "signatures": {
        "serving_default": {
            "inputs": {"text": {"dtype": "string", "shape": [None]}},
            "outputs": {},
        },
        "fill_mask": {
            "inputs": {"text": {"dtype": "string", "shape": [None]}},
            "outputs": {},
        },
        "score": {
            "inputs": {"input_ids": ROW, "input_mask": ROW},
            "outputs": {},
        },
    },
}
SHAPES = {
    "model/word_embedding/lookup_table:0": (1000, 192),
    **{
        f"model/layer_{i}/{name}:0": shape
        for i in range(4)
        for name, shape in (
            ("rel_attn/q_kernel", (192, 4, 48)),
            ("ff/kernel_1", (192, 768)),
        )
    },
}


class Model:
    """Takes `seconds` for every row, in steps that look at `stop`."""

    version = "1"
    variable_shapes = SHAPES
    description = DESCRIPTION

    def __init__(self, seconds=0.0):
        self.seconds = seconds
        self.runs = []  # (rows, length)

    def __call__(self, inputs, signature, stop=None):
        first = next(iter(inputs.values()))
        self.runs.append((len(first), len(first[0])))
        time.sleep(self.seconds * len(first))
        ones = np.ones([len(first)], np.float32)
        return {"x": ones, "y": ones}


def client_of(model, **options):
    app = build_app(model, ServerOptions(**options))
    return testclient.TestClient(app, raise_server_exceptions=False)


def score_body(rows, length):
    row = {"input_ids": [1] * length, "input_mask": [1] * length}
    return {"signature_name": "score", "instances": [row] * rows}


def test_a_row_that_needs_too_much_memory_is_refused():
    model = Model()
    with client_of(model, max_tokens=100) as client:
        answer = client.post(PREDICT, json=score_body(1, 101))
        assert answer.status_code == 400, answer.text
        assert "--max_tokens" in answer.json()["error"]
        assert model.runs == []
        assert client.post(PREDICT, json=score_body(1, 100)).is_success


def test_a_request_of_many_rows_runs_in_bounded_slices():
    model = Model()
    with client_of(model, max_tokens=100, max_wait_ms=0.0) as client:
        answer = client.post(PREDICT, json=score_body(9, 30))
    assert len(answer.json()["predictions"]) == 9
    assert sum(rows for rows, _ in model.runs) == 9
    assert max(rows * length for rows, length in model.runs) <= 100


def test_the_default_bound_comes_from_the_free_memory():
    cost = pytest.importorskip("serving.web.cost")
    size = cost.model_size({}, SHAPES)
    assert size == (4, 4, 192, 768, 1000)
    told = {"n_layer": 2, "n_head": 3, "d_model": 5, "d_inner": 7}
    told |= {"vocab_size": 11}
    assert cost.model_size({"sizes": told}, {}) == (2, 3, 5, 7, 11)
    assert cost.model_size({"sizes": {"n_layer": 2}}, {}) is None
    # Measured: 8,000 ids in `score` took more than 6 GB.
    assert size.run_bytes(1, 8000) > 6e9
    bounds = [
        cost.Budget(DESCRIPTION, size, ServerOptions(), free).max_tokens
        for free in (0, 10**9, 8 * 10**9, 10**13)
    ]
    assert bounds[0] == 64 and bounds == sorted(set(bounds))
    assert size.run_bytes(1, bounds[1]) <= 10**9 / 4
    unknown = cost.Budget(DESCRIPTION, None, ServerOptions(), 10**9)
    ids = np.ones([20_000], np.int32)
    with pytest.raises(UserError, match="max_tokens"):
        unknown.check("score", [{"input_ids": ids, "input_mask": ids}])


def test_a_request_above_the_cost_bound_is_refused():
    model = Model()
    with client_of(model, max_cost=10_000) as client:
        masks = {"signature_name": "fill_mask", "instances": ["<mask> " * 60]}
        assert client.post(PREDICT, json=masks).is_success
        masks["instances"] *= 3
        answer = client.post(PREDICT, json=masks)
        assert answer.status_code == 400
        assert "--max_cost" in answer.json()["error"]
        assert len(model.runs) == 1


def test_masks_are_counted_as_one_piece_each():
    cost = pytest.importorskip("serving.web.cost")
    budget = cost.Budget(DESCRIPTION, None, ServerOptions(), 10**9)
    work = budget.row_work("fill_mask", {"text": "<mask>" * 10})
    assert (work.tokens, work.cost) == (18, 180)
    assert not work.chosen


def test_a_text_costs_what_it_becomes():
    """Before it is normalised: U+FDFA becomes 18 characters."""
    cost = pytest.importorskip("serving.web.cost")
    span = DESCRIPTION | {"head": "span"}
    plain, long = (
        cost.Budget(span, None, ServerOptions(), 10**9).row_work(
            "serving_default", {"question": "a", "paragraph": char * 2000}
        )
        for char in ("a", "\ufdfa")
    )
    assert (plain.chars, long.chars) == (2001, 36_001)
    assert long.cost > 15 * plain.cost and long.weight > 15 * plain.weight


def test_characters_of_a_language_model_are_not_normalised():
    cost = pytest.importorskip("serving.web.cost")
    for unit, most in (("char", 1), ("byte", 4)):
        told = DESCRIPTION | {"head": "language_model", "unit": unit}
        budget = cost.Budget(told, None, ServerOptions(), 10**9)
        work = budget.row_work("score", {"text": "\ufdfa" * 100})
        assert work.tokens == work.cost == 100 * most + 1


def test_a_text_that_becomes_too_long_is_refused():
    model = Model()
    with client_of(model, max_chars=100) as client:
        for text, status in (("\ud7a3" * 100, 200), ("\ufdfa" * 17, 400)):
            answer = client.post(PREDICT, json={"instances": [text]})
            assert answer.status_code == status, answer.text
    assert "300 characters once" in answer.json()["error"]


def test_neighbours_pass_a_costly_request():
    model = Model(seconds=0.05)
    with client_of(model, max_tokens=128, timeout_s=20.0) as client:
        dear = {"instances": ["x" * 500] * 20}  # 64 tokens each: 1 s
        codes = []
        thread = threading.Thread(
            target=lambda: codes.append(
                client.post(PREDICT, json=dear).status_code
            )
        )
        thread.start()
        time.sleep(0.3)
        waits = []
        for _ in range(5):
            start = time.monotonic()
            assert client.post(PREDICT, json={"instances": ["a"]}).is_success
            waits.append(time.monotonic() - start)
        assert thread.is_alive()
        assert max(waits) < 1.0
        thread.join()
    assert codes == [200]


def test_no_slice_runs_for_a_request_that_timed_out():
    model = Model(seconds=0.1)
    with client_of(model, max_tokens=64, timeout_s=0.35) as client:
        answer = client.post(PREDICT, json={"instances": ["x" * 300] * 40})
        assert answer.status_code == 504
        time.sleep(0.5)
        assert 1 <= len(model.runs) <= 6


def test_health_tells_a_stuck_run():
    gate = threading.Event()

    class Stuck(Model):
        def __call__(self, inputs, signature, stop=None):
            gate.wait(20)
            return super().__call__(inputs, signature, stop)

    with client_of(Stuck(), timeout_s=0.2) as client:
        assert client.get("/healthz").json() == {"status": "ok"}
        assert client.get("/readyz").json() == {"status": "ready"}
        answer = client.post(PREDICT, json={"instances": ["a"]})
        assert answer.status_code == 504
        time.sleep(0.1)
        ready = client.get("/readyz")
        assert ready.status_code == 503 and "run" in ready.json()["error"]
        assert client.get("/healthz").status_code == 200
        time.sleep(0.4)
        assert client.get("/healthz").status_code == 503
        gate.set()
        time.sleep(0.1)
        assert client.get("/readyz").status_code == 200


def test_a_run_that_nobody_waits_for_is_stopped():
    saved_model = pytest.importorskip("serving.saved_model")
    import tensorflow as tf

    @tf.function(autograph=False)
    def endless(x):
        return tf.while_loop(lambda x: x > 0.0, lambda x: (x + 1.0,), (x,))

    # Concrete, as in a SavedModel.
    concrete = endless.get_concrete_function(tf.TensorSpec([], tf.float32))
    stop = saved_model.Stop()
    threading.Timer(0.5, stop.request).start()
    with stop.watch(), pytest.raises(tf.errors.CancelledError):
        concrete(tf.constant(1.0))


def test_the_contract_names_every_bound_and_its_status():
    scheduler = pytest.importorskip("serving.web.scheduler")
    fields = [f.name for f in dataclasses.fields(ServerOptions)]
    bounds = [n for n in fields if n.startswith("max_") or "timeout" in n]
    bounds.remove("max_numbers")  # it has no flag
    bounds.remove("max_batch_size")  # more rows take more runs
    missing = [n for n in bounds if f"`--{n}`" not in scheduler.__doc__]
    assert not missing
    rows = [line for line in scheduler.__doc__.splitlines() if "|" in line]
    assert {line.count("|") for line in rows} == {5}
    told = set(re.findall(r"\b[45]\d\d\b", scheduler.__doc__))
    assert told == set("400 401 403 408 413 414 429 431 503 504 505".split())
