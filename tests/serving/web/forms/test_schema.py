"""The OpenAPI description: what it offers, the server takes."""

import json
import re

import pytest

pytest.importorskip("fastapi")
testclient = pytest.importorskip("fastapi.testclient")

from common.errors import UserError  # noqa: E402
from serving.exported import limits  # noqa: E402
from serving.options import ServerOptions  # noqa: E402
from serving.web.app import build_app  # noqa: E402
from serving.web.forms import clients, requests, schema  # noqa: E402
from tests.serving.web.counting_model import FakeModel  # noqa: E402

OPTIONS = ServerOptions(model_name="ours", max_chars=30, max_instances=4)
TEXT = {"dtype": "string", "shape": [None]}


@pytest.fixture
def described():
    app = build_app(FakeModel(), ServerOptions(max_instances=4))
    with testclient.TestClient(app) as client:
        return client.get("/openapi.json").json()


def content(body):
    """The schema of a body."""
    return body["requestBody"]["content"]["application/json"]["schema"]


def test_openapi_names_the_errors(described):
    predict = described["paths"]["/v1/models/{name}:predict"]["post"]
    assert set(predict["responses"]) == {
        "200",
        "400",
        "403",
        "404",
        "408",
        "413",
        "415",
        "429",
        "503",
        "504",
    }
    properties = content(predict)["properties"]
    assert properties["instances"]["maxItems"] == 4


def test_openapi_promises_no_answer_that_never_comes(described):
    """FastAPI's own 422; a name is that of the model that is served."""
    names = []
    assert "components" not in described
    assert "404" not in described["paths"]["/answer"]["post"]["responses"]
    for calls in described["paths"].values():
        for call in calls.values():
            assert "422" not in call["responses"]
            places = [p["in"] for p in call.get("parameters", ())]
            assert set(places) <= {"path"}  # no query is read
            names += [
                parameter["schema"]["enum"]
                for parameter in call.get("parameters", ())
                if parameter["name"] == "name"
            ]
    assert names and all(name == ["xlnet"] for name in names)


class Embedder(FakeModel):
    """It answers all calls, in whatever form."""

    vector = {"dtype": "float32", "shape": [None, 3]}
    description = {
        "labels": [],
        "signatures": {
            "serving_default": {
                "inputs": {"text": TEXT},
                "outputs": {"embedding": vector},
            }
        },
    }


def test_every_path_describes_the_form_of_its_errors():
    options = ServerOptions(max_requests_per_address=0, allowed_hosts=("a.b",))
    with testclient.TestClient(
        build_app(Embedder(), options), base_url="http://a.b"
    ) as client:
        paths = client.get("/openapi.json").json()["paths"]
        assert {"/rerank", "/v1/embeddings", "/v1/models"} < set(paths)
        for path, calls in paths.items():
            for method, call in calls.items():
                assert "429" not in call["responses"]  # it never comes
                told = call["responses"]["403"]["content"]
                members = told["application/json"]["schema"]["properties"]
                asked = path.format(name="xlnet", version="7", label="l")
                headers = {"Host": "elsewhere.org"}
                found = client.request(method, asked, headers=headers)
                assert found.status_code == 403
                found = found.json()
                assert set(found) == set(members), path
                inner = members["error"].get("properties", {})
                if inner:
                    assert set(found["error"]) == set(inner), path
                else:
                    assert isinstance(found["error"], str), path


@pytest.mark.parametrize(
    "text", "a| a|a\n|\n|| \t|\0|a\0|\0a|\xa0|\u3042".split("|")
)
def test_the_pattern_of_texts_is_what_the_server_checks(text):
    try:
        limits.check_text(text, "text", 30)
        taken = True
    except UserError:
        taken = False
    shape = schema._text(OPTIONS)
    matches = bool(re.search(shape["pattern"], text))
    assert (matches and len(text) >= shape["minLength"]) == taken


def example(shape, more=0):
    """The largest value of a schema; `more` items than that."""
    if "enum" in shape:
        return shape["enum"][0]
    if "anyOf" in shape:
        return example(shape["anyOf"][0], more)
    if shape["type"] == "object":
        assert set(shape["required"]) <= set(shape["properties"])
        members = shape["properties"].items()
        return {name: example(one, more) for name, one in members}
    if shape["type"] == "array":
        count = shape.get("maxItems", 2 - more) + more
        return [example(shape["items"]) for _ in range(count)]
    if shape["type"] == "string":
        return "a" * (shape.get("maxLength", 9 - more) + more)
    return {"integer": 1, "number": 0.5, "boolean": True}[shape["type"]]


def described_as(inputs, outputs):
    raw = {"inputs": inputs, "outputs": outputs}
    return {"signatures": {"serving_default": raw}}


VECTORS = described_as(
    {"text": TEXT}, {"embedding": {"dtype": "float32", "shape": [None, 3]}}
)
RANKER = described_as(
    {"query": TEXT, "documents": {"dtype": "string", "shape": [None, None]}}, {}
)
MIXED = described_as(
    {
        "text": TEXT,
        "input_ids": {"dtype": "int32", "shape": [None, None]},
        "scales": {"dtype": "float32", "shape": [None, 2, None]},
        "seed": {"dtype": "int32", "shape": []},
    },
    {},
)


@pytest.mark.parametrize(
    ("body", "parse", "description"),
    [
        (schema.predict_body(VECTORS, OPTIONS), "predict", VECTORS),
        (schema.predict_body(RANKER, OPTIONS), "predict", RANKER),
        (schema.predict_body(MIXED, OPTIONS), "predict", MIXED),
        (schema.embeddings_body(VECTORS, OPTIONS), "embeddings", VECTORS),
        (schema.rerank_body(OPTIONS), "rerank", RANKER),
    ],
)
def test_the_largest_body_of_a_schema_is_taken_and_no_larger_one(
    body, parse, description
):
    call = {
        "predict": requests.parse_request,
        "embeddings": clients.parse_embeddings,
        "rerank": clients.parse_rerank,
    }[parse]
    shape = content(body)
    assert not shape["additionalProperties"]
    largest = example(shape)
    found = call(json.dumps(largest).encode(), description, OPTIONS)
    assert len(found.rows) == (1 if parse == "embeddings" else 4)
    for wrong in (example(shape, 1), largest | {"unknown": 1}):
        with pytest.raises(UserError):
            call(json.dumps(wrong).encode(), description, OPTIONS)


def test_every_member_that_a_call_takes_is_described():
    """A client made of the description could not ask for it."""
    body = content(schema.embeddings_body(VECTORS, OPTIONS))
    assert body["properties"]["dimensions"]["enum"] == [3]
    assert len(body["properties"]["input"]["anyOf"]) == 2
    signatures = VECTORS["signatures"]
    pieces = {"signatures": signatures | {clients.PIECES: {}}}
    body = content(schema.embeddings_body(pieces, OPTIONS))
    ids, several = body["properties"]["input"]["anyOf"][2:]
    assert ids["items"] == {"type": "integer"} and several["items"] == ids
    body = content(schema.embeddings_body(RANKER, OPTIONS))
    assert "dimensions" not in body["properties"]
    body = content(schema.rerank_body(OPTIONS))["properties"]
    assert body["truncate"] == {"type": "boolean"}
    question = {"query": "a", "texts": ["b"]}
    for side in body["truncation_direction"]["enum"]:
        asked = question | {"truncation_direction": side}
        clients.parse_rerank(json.dumps(asked).encode(), RANKER, OPTIONS)


def test_a_row_of_one_text_may_be_the_text_itself():
    rows = content(schema.predict_body(VECTORS, OPTIONS))
    kinds = rows["properties"]["instances"]["items"]["anyOf"]
    assert [kind["type"] for kind in kinds] == ["object", "string"]
    for description in (RANKER, MIXED):
        rows = content(schema.predict_body(description, OPTIONS))
        assert "anyOf" not in rows["properties"]["instances"]["items"]


def test_keys_are_wanted_but_for_open_paths():
    paths = {name: {"get": {"responses": {"200": {}}}} for name in ("/", "/a")}
    made = {"paths": paths}
    schema._add_keys(made, {"/"})
    assert paths["/"]["get"] == {"responses": {"200": {}}, "security": []}
    assert set(paths["/a"]["get"]["responses"]) == {"200", "401"}
    assert set(made["components"]["securitySchemes"]) == {"bearer", "header"}


def test_a_second_text_may_be_empty_where_the_server_takes_it():
    signature = {"inputs": {"text_a": TEXT, "text_b": TEXT}, "outputs": {}}
    told = {"signatures": {"serving_default": signature}}
    for allowed in (False, True):
        told["data_options"] = {"allow_empty_text": allowed}
        body = content(schema.predict_body(told, OPTIONS))
        row = body["properties"]["instances"]["items"]["properties"]
        assert row["text_a"]["minLength"] == 1
        assert row["text_b"]["minLength"] == 1 - allowed
        assert bool(re.match(row["text_b"]["pattern"], "")) is allowed
        assert not re.match(row["text_b"]["pattern"], "a\0")
