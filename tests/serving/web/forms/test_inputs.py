"""Values that fit their own spec and still give wrong numbers are refused."""

import numpy as np
import pytest

pytest.importorskip("fastapi")
testclient = pytest.importorskip("fastapi.testclient")

from common.errors import UserError  # noqa: E402
from serving.options import ServerOptions  # noqa: E402
from serving.web.app import build_app  # noqa: E402
from serving.web.forms import inputs  # noqa: E402
from tests.serving.web.counting_model import FakeModel  # noqa: E402

PREDICT = "/v1/models/xlnet:predict"
ROW = {"dtype": "int32", "shape": [None, None]}
NUMBER = {"dtype": "int32", "shape": [None]}
SPECS = {
    "serving_default": {
        "inputs": {"text": {"dtype": "string", "shape": [None]}},
        "outputs": {},
    },
    "ids": {
        "inputs": {
            "input_ids": ROW,
            "segment_ids": ROW,
            "input_mask": ROW,
            "paragraph_mask": ROW,
            "cls_index": NUMBER,
        },
        "outputs": {},
    },
    "encode": {
        "inputs": {
            "input_ids": ROW,
            "input_mask": ROW,
            "memory": {"dtype": "float32", "shape": [None, 1, None, 2]},
            "memory_length": NUMBER,
        },
        "outputs": {},
    },
}
IDS = {
    "input_ids": [5, 9, 4],
    "segment_ids": [0, 1, 2],
    "input_mask": [0, 1, 1],
    "paragraph_mask": [1, 0, 0],
    "cls_index": 2,
}
ENCODE = {
    "input_ids": [5, 9],
    "input_mask": [1, 1],
    "memory": [[[0.0, 0.0], [0.5, 0.5]]],
    "memory_length": 1,
}


class Model:
    """Broadcasts as NumPy does, as a SavedModel may."""

    version = "1"
    variable_shapes = {}
    description = {"labels": [], "signatures": SPECS, "vocab_size": 10}

    def __call__(self, inputs, signature, stop=None):
        ids = np.asarray(inputs["input_ids"])
        return {"x": ids.sum(1), "y": ids.sum(1)}


@pytest.fixture(scope="module")
def client():
    app = build_app(Model(), ServerOptions())
    with testclient.TestClient(app, raise_server_exceptions=False) as client:
        yield client


def ask(client, signature, *rows):
    body = {"signature_name": signature, "instances": rows}
    return client.post(PREDICT, json=body)


@pytest.mark.parametrize(
    ("signature", "good", "change", "says"),
    [
        ("ids", IDS, {"input_mask": [1]}, "equal shapes"),
        ("ids", IDS, {"segment_ids": [0]}, "equal shapes"),
        ("ids", IDS, {"paragraph_mask": [1, 1]}, "equal shapes"),
        ("ids", IDS, {"input_mask": [0, 1, 2]}, "0 to 1"),
        ("ids", IDS, {"input_mask": [0, 1, -1]}, "0 to 1"),
        ("ids", IDS, {"paragraph_mask": [7, 0, 0]}, "0 to 1"),
        ("ids", IDS, {"segment_ids": [0, 1, 99]}, "segment"),
        ("ids", IDS, {"segment_ids": [0, -1, 2]}, "segment"),
        ("ids", IDS, {"input_ids": [5, 10, 4]}, "0 to 9"),
        ("ids", IDS, {"input_ids": [5, -1, 4]}, "0 to 9"),
        ("ids", IDS, {"cls_index": 3}, "0 to 2"),
        ("ids", IDS, {"cls_index": -1}, "0 to 2"),
        ("encode", ENCODE, {"input_mask": [1, 1, 1]}, "equal shapes"),
        ("encode", ENCODE, {"memory_length": 3}, "0 to 2"),
        ("encode", ENCODE, {"memory": [[[0.0], [0.5]]]}, "shape"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(
    client, signature, good, change, says
):
    assert ask(client, signature, good).status_code == 200
    for rows in ([good | change], [good, good | change]):
        answer = ask(client, signature, *rows)
        assert answer.status_code == 400, answer.text
        assert says in answer.json()["error"]
        assert next(iter(change)) in answer.json()["error"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            {"segment_ids": [0, 1, 2]},
            "segment_ids: wanted a known segment (0 to 1)",
        ),
        (
            {n: [0] * 4 for n in ("input_ids", "segment_ids", "input_mask")}
            | {"paragraph_mask": [0] * 4},
            "wanted at most 3 tokens",
        ),
    ],
)
def test_segments_and_places_that_an_encoder_lacks_are_refused(change, says):
    """A segment beyond BERT's table would count as none, silently."""
    model = Model()
    bounds = {"type_vocab_size": 2, "max_position_embeddings": 3}
    model.description = Model.description | bounds
    good = IDS | {"segment_ids": [0, 1, 1]}
    app = build_app(model, ServerOptions())
    with testclient.TestClient(app, raise_server_exceptions=False) as client:
        assert ask(client, "ids", good).status_code == 200
        answer = ask(client, "ids", good | change)
    assert answer.status_code == 400 and says in answer.json()["error"]


def test_rows_of_two_lengths_name_the_row(client):
    short = IDS | {k: v[:2] for k, v in IDS.items() if k != "cls_index"}
    answer = ask(client, "ids", IDS, short | {"cls_index": 0})
    assert answer.status_code == 400
    assert "instances[1].input_ids" in answer.json()["error"]


def test_a_text_that_becomes_too_long_is_refused():
    app = build_app(FakeModel(), ServerOptions(max_chars=100))
    with testclient.TestClient(app) as client:
        for text, status in (("\ud7a3" * 100, 200), ("\ufdfa" * 17, 400)):
            answer = client.post(PREDICT, json={"instances": [text]})
            assert answer.status_code == status, answer.text
    assert "300 characters once" in answer.json()["error"]


TEXTS = {"text": {"dtype": "string", "shape": [None, None]}}
FIXED = {"x": {"dtype": "float32", "shape": [None, 2, None]}}


@pytest.mark.parametrize(
    ("specs", "value", "says"),
    [
        (TEXTS, "a", "instances[4].text: wanted a list of 1 to 64 strings"),
        (TEXTS, [], "instances[4].text: wanted a list of 1 to 64 strings"),
        (TEXTS, ["a"] * 65, "wanted a list of 1 to 64 strings"),
        (TEXTS, ["a", " "], "instances[4].text[1]: the text is empty"),
        (TEXTS, ["a", {"b64": "/w=="}], "text[1]: byte 0 is not UTF-8"),
        (TEXTS, [{"b64": "YQ"}], "text[0]: b64 holds no base64"),
        (TEXTS, [{"b64": "YQ==", "x": 1}], "wanted a string, found dict"),
        (
            FIXED,
            [[1.0]],
            "instances[4].x: wanted the shape [2, None], found [1",
        ),
        (FIXED, [1.0, 2.0], "wanted the shape [2, None], found [2]"),
        (FIXED, [[], []], "instances[4].x: the array is empty"),
    ],
)
def test_values_that_break_their_spec_are_named(specs, value, says):
    (name,) = specs
    with pytest.raises(UserError) as e:
        inputs.check_row({name: value}, specs, "instances[4]", ServerOptions())
    assert says in str(e.value) and "\n" not in str(e.value)


def test_values_that_keep_their_spec_come_as_the_model_takes_them():
    options = ServerOptions()
    texts = ["caf\u00e9", {"b64": "Y2Fmw6k="}] * 32
    row = inputs.check_row({"text": texts}, TEXTS, "a", options)
    assert row == {"text": ["caf\u00e9"] * 64}
    row = inputs.check_row({"x": [[1, 2, 3], [0.5, 0, 0]]}, FIXED, "a", options)
    assert row["x"].dtype == np.float32
    assert row["x"].tolist() == [[1, 2, 3], [0.5, 0, 0]]


def test_numbers_of_texts_are_as_many_as_the_texts():
    specs = TEXTS | {"scores": {"dtype": "float32", "shape": [None, None]}}
    row = {"text": ["a", "b"], "scores": [1.0, 2.0]}
    options = ServerOptions()
    found = inputs.check_row(row, specs, "instances[4]", options)
    assert found["scores"].tolist() == [1, 2]
    row["scores"] = [1.0]
    with pytest.raises(UserError) as e:
        inputs.check_row(row, specs, "instances[4]", options)
    assert "instances[4]: scores: wanted 2, as many as text" in str(e.value)


def test_a_second_text_may_be_empty_where_training_allowed_it():
    text = {"dtype": "string", "shape": [None]}
    specs = {"text_a": text, "text_b": text}
    known = {"data_options": {"allow_empty_text": True}}

    def check(row, known):
        return inputs.check_row(row, specs, "row", ServerOptions(), known)

    for blank in ("", " \n"):
        row = {"text_a": "x", "text_b": blank}
        assert check(row, known) == {"text_a": "x", "text_b": ""}
        with pytest.raises(UserError, match=r"row\.text_b: the text is empty"):
            check(row, {})
        with pytest.raises(UserError, match=r"row\.text_a: the text is empty"):
            check({"text_a": blank, "text_b": "x"}, known)
    packed = {"text_a": "x", "text_b": {"b64": "IAo="}}
    for blank in (packed, packed | {"text_b": {"b64": ""}}):
        assert check(blank, known) == {"text_a": "x", "text_b": ""}
        with pytest.raises(UserError, match=r"row\.text_b: the text is empty"):
            check(blank, {})
    with pytest.raises(UserError, match=r"row\.text_b: wanted a string"):
        check({"text_a": "x", "text_b": None}, known)
