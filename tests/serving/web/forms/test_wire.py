"""`:predict` sends the bytes of TF-Serving's documented REST format."""

import base64
import json
import math

import numpy as np
import pytest

pytest.importorskip("fastapi")
testclient = pytest.importorskip("fastapi.testclient")

from serving.options import ServerOptions  # noqa: E402
from serving.web.app import build_app  # noqa: E402
from serving.web.forms import wire  # noqa: E402

MODEL = "/v1/models/xlnet"
TEXT = {"text": {"dtype": "string", "shape": [None]}}
ROW = {"dtype": "int32", "shape": [None, None]}
ONE = {"y": {"dtype": "float32", "shape": [None]}}


class Model:
    """One output, several, and strings as bytes."""

    version = "3"
    variable_shapes = {}
    signature_defs = {"serving_default": {"method_name": "x"}}
    description = {
        "labels": ["no", "yes"],
        "signatures": {
            "serving_default": {"inputs": TEXT, "outputs": {}},
            "one": {"inputs": {"input_ids": ROW}, "outputs": ONE},
            "vector": {"inputs": {"input_ids": ROW}, "outputs": ONE},
            "raw": {"inputs": TEXT, "outputs": {}},
        },
    }

    def __init__(self):
        self.texts = []

    def __call__(self, inputs, signature, stop=None):
        if signature == "one":
            return {"y": np.asarray(inputs["input_ids"]).sum(1) / 2 + 3.0}
        if signature == "vector":
            ids = np.asarray(inputs["input_ids"], np.float32)
            return {"y": ids / np.float32(3)}
        self.texts += inputs["text"]
        count = len(inputs["text"])
        if signature == "raw":
            return {
                "a_bytes": np.asarray([b"\xff\x00"] * count, object),
                "b": np.asarray([7] * count, np.int64),
            }
        return {
            "probabilities": np.asarray([[0.25, 0.75]] * count, np.float32),
            "label": np.asarray(["ja \u00e9\n".encode()] * count, object),
            "truncated": np.asarray([False] * count),
            "odd": np.asarray([math.nan] * count, np.float32),
        }


@pytest.fixture
def model():
    return Model()


@pytest.fixture
def client(model):
    app = build_app(model, ServerOptions(version_labels=("stable",)))
    with testclient.TestClient(app, raise_server_exceptions=False) as client:
        yield client


def ask(client, path=MODEL, **body):
    answer = client.post(path + ":predict", json=body)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"
    return answer.text


def test_one_output_has_no_name(client):
    # The documented half_plus_three, whose answer is 3.5, 4.0, 5.5.
    rows = {"signature_name": "one", "instances": [[1], [2], [5]]}
    assert ask(client, **rows) == (
        '{\n    "predictions": [3.5, 4.0, 5.5\n    ]\n}'
    )
    columns = {"signature_name": "one", "inputs": [[1], [2]]}
    assert ask(client, **columns) == (
        '{\n    "outputs": [\n        3.5,\n        4.0\n    ]\n}'
    )


def test_numbers_have_the_digits_that_read_back(client):
    rows = {"signature_name": "vector", "instances": [[1, 3], [300000000, 0]]}
    assert ask(client, **rows) == (
        '{\n    "predictions": [[0.333333343, 1.0], [1e+08, 0.0]\n    ]\n}'
    )


def test_several_outputs_are_objects(client):
    one = (
        '\n        {\n            "label": "ja \u00e9\\n",\n            "odd": NaN,'
        '\n            "probabilities": [0.25, 0.75],'
        '\n            "truncated": false\n        }'
    )
    found = ask(client, instances=["a", {"text": "b"}])
    assert found == '{\n    "predictions": [' + one + "," + one + "\n    ]\n}"
    columns = json.loads(ask(client, inputs={"text": ["a", "b"]}))["outputs"]
    assert columns["probabilities"] == [[0.25, 0.75]] * 2
    assert columns["label"] == ["ja \u00e9\n"] * 2


def test_binary_values_both_ways(client, model):
    text = base64.b64encode("na\u00efve".encode()).decode()
    answer = json.loads(
        ask(
            client,
            signature_name="raw",
            instances=[{"b64": text}, {"text": {"b64": text}}],
        )
    )
    assert model.texts == ["na\u00efve"] * 2
    coded = base64.b64encode(b"\xff\x00").decode()
    assert answer["predictions"] == [{"a_bytes": {"b64": coded}, "b": 7}] * 2
    columns = ask(client, signature_name="raw", inputs=[{"b64": text}])
    assert json.loads(columns)["outputs"]["a_bytes"] == [{"b64": coded}]
    for bad in ("?", base64.b64encode(b"\xff").decode()):
        body = {"instances": [{"b64": bad}]}
        answer = client.post(MODEL + ":predict", json=body)
        assert answer.status_code == 400 and "error" in answer.json()


@pytest.mark.parametrize("part", ["", "/versions/3", "/labels/stable"])
def test_versions_and_labels(client, part):
    assert "predictions" in ask(client, MODEL + part, instances=["a"])
    assert client.get(MODEL + part).text == (
        '{\n "model_version_status": [\n  {\n   "version": "3",\n   "state": '
        '"AVAILABLE",\n   "status": {\n    "error_code": "OK",\n    '
        '"error_message": ""\n   }\n  }\n ]\n}\n'
    )
    metadata = client.get(MODEL + part + "/metadata").json()
    assert metadata == {
        "model_spec": {"name": "xlnet", "signature_name": "", "version": "3"},
        "metadata": {"signature_def": {"signature_def": Model.signature_defs}},
    }


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/versions/4:predict", 404),
        ("/labels/other:predict", 404),
        ("x:predict", 404),
        (":classify", 405),
    ],
)
def test_errors_are_objects(client, path, status):
    answer = client.post(MODEL + path, json={"instances": ["a"]})
    assert answer.status_code == status
    assert list(answer.json()) == ["error"]
    assert client.get(MODEL + path).status_code in (404, 405)


@pytest.mark.parametrize(
    ("kind", "bits"), [(np.float32, np.uint32), (np.float64, np.uint64)]
)
def test_any_number_reads_back_as_itself(kind, bits):
    rng = np.random.default_rng(5)
    values = rng.integers(0, np.iinfo(bits).max, 300, bits).view(kind)
    values = np.append(values[np.isfinite(values)], kind(0.1) + kind(0.2))
    assert len(values) > 200
    text = wire.predictions([{"y": value} for value in values]).decode()
    found = np.asarray(json.loads(text)["predictions"], kind)
    np.testing.assert_array_equal(found, values)


def test_numbers_that_json_lacks_and_arrays_without_any():
    column = np.asarray([np.inf, -np.inf, np.nan, 3.0, 0.1], np.float32)
    assert wire.predictions([{"y": column}]).decode() == (
        '{\n    "predictions": [[Infinity, -Infinity, NaN, 3.0, 0.1]\n    ]\n}'
    )
    empty = np.zeros([0], np.int32)
    assert wire.outputs([{"b": empty, "a": np.bool_(True)}]).decode() == (
        '{\n    "outputs": {\n        "a": [\n            true\n        ],'
        '\n        "b": [\n            []\n        ]\n    }\n}'
    )


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "Validation"),
        (413, "Validation"),
        (500, "Backend"),
        (503, "Overloaded"),
    ],
)
def test_errors_have_the_form_of_their_path(status, kind):
    message = 'model: "\u00e9" is no name'
    plain = wire.error(message, status).decode()
    assert plain == '{\n    "error": "model: \\"\u00e9\\" is no name"\n}'
    found = json.loads(wire.error(message, status, wire.RERANK))
    assert found == {"error": message, "error_type": kind}
    for path in (wire.EMBEDDINGS, wire.MODELS):
        error = json.loads(wire.error(message, status, path))["error"]
        assert (error["message"], error["param"]) == (message, "model")
        is_ours = error["type"] == "server_error"
        assert is_ours == (status >= 500) and error["code"] is None
    other = json.loads(wire.error("modelling", 401, wire.MODELS))["error"]
    assert other["param"] is None and other["code"] == "invalid_api_key"


@pytest.mark.slow
@pytest.mark.shared
def test_a_real_export_answers_its_own_outputs(spiece_model, tmp_path):
    """Values and shapes are the SavedModel's; SignatureDefs are its protos."""
    from google.protobuf import json_format
    from tensorflow.core.protobuf import meta_graph_pb2

    from common.contract.task_spec import TaskSpec
    from common.vocabularies.text_settings import TextSettings
    from modeling import ClassificationModel, XLNetConfig
    from serving.export import export_model
    from serving.saved_model import SavedModel

    config = XLNetConfig(
        vocab_size=1000, d_model=16, n_layer=1, n_head=2, d_head=8, d_inner=16
    )
    spec = TaskSpec(
        "tsv", "classification", ("no", "yes"), 32, TextSettings(), ""
    )
    export_model(
        str(tmp_path),
        ClassificationModel(config, 2),
        spec,
        spiece_model,
        check=False,
    )
    loaded = SavedModel(str(tmp_path))
    wanted = loaded({"text": ["A text."]})
    with testclient.TestClient(build_app(loaded, ServerOptions())) as client:
        (row,) = json.loads(ask(client, instances=["A text."]))["predictions"]
        metadata = client.get(MODEL + "/metadata").json()
        friendly = client.post("/answer", json={"instances": ["A text."]})
    assert set(row) == set(wanted) and "logits" in row
    for name, value in wanted.items():
        if value.dtype == object:
            assert row[name] == value[0].decode()
        else:
            np.testing.assert_allclose(row[name], value[0], rtol=1e-6)
    found = friendly.json()["answers"][0]["probabilities"]
    assert list(found) == ["no", "yes"]
    defs = metadata["metadata"]["signature_def"]["signature_def"]
    parsed = json_format.ParseDict(
        defs["serving_default"], meta_graph_pb2.SignatureDef()
    )
    assert parsed.inputs["text"].dtype == 7
    assert parsed.method_name == "tensorflow/serving/predict"
