"""`/v1/embeddings`, `/rerank`, `/v1/models`: forms of other programs."""

import base64
import hashlib
import json
import re

import numpy as np
import pytest

pytest.importorskip("fastapi")
testclient = pytest.importorskip("fastapi.testclient")

from serving.options import ServerOptions  # noqa: E402
from serving.web.app import build_app  # noqa: E402
from serving.web.forms import clients  # noqa: E402
from tests.serving.web.slow_server import in_thread  # noqa: E402

TEXT = {"dtype": "string", "shape": [None]}
IDS = {"dtype": "int32", "shape": [None, None]}
VECTOR = {"dtype": "float32", "shape": [None, 3]}
FLAT = {"dtype": "float32", "shape": [None]}
CUT = 12  # characters or ids that the model reads


def _describe(head, inputs, outputs, **more):
    raw = {"inputs": inputs, "outputs": outputs}
    return {
        "head": head,
        "model_type": "bert",
        "labels": [],
        "vocab_size": 100,
        "signatures": {"serving_default": raw, **more},
    }


class Vectors:
    """A text's vector: its length, its first character, 1."""

    version = "1"
    variable_shapes = {}
    signature_defs = {}
    description = _describe(
        "embedding",
        {"text": TEXT},
        {"embedding": VECTOR},
        pieces={
            "inputs": {"input_ids": IDS, "input_mask": IDS},
            "outputs": {"embedding": VECTOR},
        },
    )

    def __call__(self, inputs, signature, stop=None):
        if signature == "pieces":
            rows = [
                row[mask > 0]
                for row, mask in zip(
                    inputs["input_ids"], inputs["input_mask"], strict=True
                )
            ]
        else:
            rows = [[ord(c) for c in text] for text in inputs["text"]]
        vectors = [[len(row), row[0] / 3.0, 1.0] for row in rows]
        return {
            "embedding": np.asarray(vectors, np.float32),
            "num_tokens": np.asarray([len(row) + 2 for row in rows]),
            "truncated": np.asarray([len(row) > CUT for row in rows]),
        }


class Ranker(Vectors):
    """A document's score: how often it has the query, less one."""

    description = _describe(
        "ranking",
        {
            "query": TEXT,
            "documents": {"dtype": "string", "shape": [None, None]},
        },
        {"scores": {"dtype": "float32", "shape": [None, None]}},
    )

    def __call__(self, inputs, signature, stop=None):
        scores = [
            [text.count(query) - 1.0 for text in texts]
            for query, texts in zip(
                inputs["query"], inputs["documents"], strict=True
            )
        ]
        cut = [[len(t) > CUT for t in texts] for texts in inputs["documents"]]
        return {
            "scores": np.asarray(scores, np.float32),
            "order": np.zeros_like(scores, np.int32),
            "truncated": np.asarray(cut),
        }


class Similarity(Vectors):
    """A pair's value: how many characters both have."""

    description = _describe(
        "regression", {"text_a": TEXT, "text_b": TEXT}, {"value": FLAT}
    )

    def __call__(self, inputs, signature, stop=None):
        pairs = list(zip(inputs["text_a"], inputs["text_b"], strict=True))
        value = [len(set(a) & set(b)) for a, b in pairs]
        return {
            "value": np.asarray(value, np.float32),
            "truncated": np.asarray([False for _ in pairs]),
        }


class Classes(Vectors):
    """Neither vectors nor scores of pairs."""

    description = _describe(
        "classification", {"text": TEXT}, {"probabilities": VECTOR}
    )


def _client(model, **options):
    app = build_app(model, ServerOptions(max_instances=5, **options))
    return testclient.TestClient(app, raise_server_exceptions=False)


@pytest.fixture(scope="module")
def vectors():
    with _client(Vectors()) as client:
        yield client


@pytest.fixture(scope="module")
def ranker():
    with _client(Ranker()) as client:
        yield client


def _embed(client, given, **more):
    body = {"model": "bert", "input": given} | more
    return client.post("/v1/embeddings", json=body)


def test_one_text_in_openai_s_form(vectors):
    answer = _embed(vectors, "A text", user="me").json()
    assert answer == {
        "object": "list",
        "model": "bert",
        "data": [
            {
                "object": "embedding",
                "index": 0,
                "embedding": [6.0, float(f"{np.float32(65 / 3):.9g}"), 1.0],
            }
        ],
        "usage": {"prompt_tokens": 8, "total_tokens": 8},
    }


@pytest.mark.parametrize(
    ("given", "lengths"),
    [(["ab", "c"], [2, 1]), ([7, 8, 9], [3]), ([[7, 8, 9], [0]], [3, 1])],
)
def test_lists_and_ids(vectors, given, lengths):
    answer = _embed(vectors, given, dimensions=3).json()
    assert [d["index"] for d in answer["data"]] == list(range(len(lengths)))
    assert [d["embedding"][0] for d in answer["data"]] == lengths
    assert answer["usage"]["total_tokens"] == sum(lengths) + 2 * len(lengths)


def test_base64_is_the_same_float32(vectors):
    plain = _embed(vectors, "A text").json()["data"][0]["embedding"]
    coded = _embed(vectors, "A text", encoding_format="base64").json()
    raw = base64.b64decode(coded["data"][0]["embedding"])
    np.testing.assert_array_equal(
        np.frombuffer(raw, "<f4"), np.asarray(plain, np.float32)
    )


def test_what_was_cut_says_so(vectors):
    short, cut = _embed(vectors, ["a", "a" * (CUT + 1)]).json()["data"]
    assert cut["truncated"] is True and "truncated" not in short


@pytest.mark.parametrize(
    ("change", "param", "words"),
    [
        ({"input": ""}, "input", "empty"),
        ({"input": []}, "input", "1 to 5"),
        ({"input": ["a"] * 6}, "input", "found 6"),
        ({"input": 3}, "input", "found 3"),
        ({"input": ["a", 3]}, "input", r"input\[1\].*wanted a string"),
        ({"input": [[1], "a"]}, "input", r"input\[1\]"),
        ({"input": [[1], [100]]}, "input", r"input\[1\].*0 to 99"),
        ({"input": [[]]}, "input", "empty"),
        ({"input": [True]}, "input", "wanted a string"),
        ({"encoding_format": "int8"}, "encoding_format", "base64"),
        ({"encoding_format": []}, "encoding_format", "base64"),
        ({"encoding_format": False}, "encoding_format", "base64"),
        ({"dimensions": 2}, "dimensions", "wanted 3"),
        ({"dimensions": "3"}, "dimensions", "wanted 3"),
        ({"model": 3}, "model", "a name"),
        ({"extra": 1}, None, "unknown key 'extra'"),
    ],
)
def test_mistakes_in_openai_s_form(vectors, change, param, words):
    body = {"model": "bert", "input": "a"} | change
    answer = vectors.post("/v1/embeddings", json=body)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["type"] == "invalid_request_error"
    assert error["param"] == param and error["code"] is None
    assert re.search(words, error["message"])


def test_other_models_and_missing_members(vectors):
    answer = vectors.post("/v1/embeddings", json={"model": "x", "input": "a"})
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "model_not_found"
    assert answer.json()["error"]["param"] == "model"
    answer = vectors.post("/v1/embeddings", json={"input": "a"})
    assert answer.json()["error"]["param"] == "model"
    answer = vectors.post("/v1/embeddings", content=b"{")
    assert answer.status_code == 400
    assert "not valid JSON" in answer.json()["error"]["message"]
    assert vectors.get("/v1/embeddings").json()["error"]["type"]


def test_models_in_openai_s_form(vectors):
    found = vectors.get("/v1/models").json()
    assert found["object"] == "list"
    assert found["data"][0]["id"] == "bert"


def test_outputs_that_are_no_numbers_are_an_error_of_the_server():
    """`NaN` is no JSON: clients could not read the answer."""

    class Damaged(Vectors):
        def __call__(self, inputs, signature, stop=None):
            outputs = super().__call__(inputs, signature)
            outputs["embedding"][-1, 0] = np.nan
            return outputs

    with _client(Damaged()) as client:
        answer = _embed(client, ["a", "b"])
        error = answer.json()["error"]
        assert answer.status_code == 500 and error["type"] == "server_error"
        assert "embedding is not finite" in error["message"]
        body = {"query": "a", "texts": ["b", "c"]}
        answer = client.post("/rerank", json=body)
        assert answer.status_code == 500
        assert answer.json()["error_type"] == "Backend"


def test_rerank_sorts_and_gives_sigmoids(ranker):
    body = {"query": "a", "texts": ["b", "aaa", "ab"]}
    found = ranker.post("/rerank", json=body).json()
    assert [entry["index"] for entry in found] == [1, 2, 0]
    wanted = [1 / (1 + np.exp(-x)) for x in (2.0, 0.0, -1.0)]
    np.testing.assert_allclose([e["score"] for e in found], wanted, rtol=1e-8)
    assert all(set(entry) == {"index", "score"} for entry in found)
    more = {"raw_scores": True, "return_text": True}
    found = ranker.post("/rerank", json=body | more).json()
    assert found[0] == {"index": 1, "score": 2.0, "text": "aaa"}
    assert [entry["score"] for entry in found] == [2.0, 0.0, -1.0]


def test_equal_scores_keep_their_order(ranker):
    body = {"query": "a", "texts": ["b", "c", "a", "d"]}
    found = ranker.post("/rerank", json=body).json()
    assert [entry["index"] for entry in found] == [2, 0, 1, 3]


def test_rerank_cuts_unless_told_not_to(ranker):
    body = {"query": "a", "texts": ["b", "a" * (CUT + 1)]}
    for more in ({}, {"truncate": True}, {"truncate": None}):
        found = ranker.post("/rerank", json=body | more).json()
        cut = [entry["index"] for entry in found if "truncated" in entry]
        assert cut == [1] and found[0]["truncated"] is True
    answer = ranker.post("/rerank", json=body | {"truncate": False})
    assert answer.status_code == 413
    assert answer.json()["error_type"] == "Validation"
    assert answer.json()["error"].startswith("texts[1]: ")


def test_a_query_that_is_cut_is_named(vectors):
    """Vectors are of the query, too: what all texts are compared with."""
    body = {"query": "a" * (CUT + 1), "texts": ["b", "c"]}
    found = vectors.post("/rerank", json=body).json()
    assert [entry["truncated"] for entry in found] == [True, True]
    answer = vectors.post("/rerank", json=body | {"truncate": False})
    assert answer.status_code == 413
    assert answer.json()["error"].startswith("query: ")


def test_large_and_small_scores_keep_their_order():
    """Their sigmoids are 1, or begin with 18 zeros."""

    class Sure(Ranker):
        def __call__(self, inputs, signature, stop=None):
            scores = [[float(t) for t in row] for row in inputs["documents"]]
            return {
                "scores": np.asarray(scores, np.float32),
                "truncated": np.zeros_like(scores, bool),
            }

    body = {"query": "a", "texts": ["25", "40", "30", "-42", "-41"]}
    with _client(Sure()) as client:
        found = client.post("/rerank", json=body).json()
    assert [entry["index"] for entry in found] == [1, 2, 0, 4, 3]
    wanted = [1.0, 1.0, 1.0, np.exp(-41), np.exp(-42)]
    np.testing.assert_allclose([e["score"] for e in found], wanted, rtol=1e-8)


def test_a_ranker_that_wants_scores_says_so():
    class Scored(Ranker):
        description = _describe(
            "ranking",
            {
                "candidate_scores": {"dtype": "float32", "shape": [None, None]},
                **Ranker.description["signatures"]["serving_default"]["inputs"],
            },
            {"scores": FLAT},
        )

    with _client(Scored()) as client:
        answer = client.post("/rerank", json={"query": "a", "texts": ["b"]})
        assert "/rerank" not in client.get("/openapi.json").json()["paths"]
    assert answer.status_code == 400
    assert "--nowith_candidate_score" in answer.json()["error"]


def test_texts_that_become_too_long_are_refused(vectors, ranker):
    """U+FDFA becomes 18 characters: the bound is that of `:predict`."""
    long = "\ufdfa" * 10_000
    answer = _embed(vectors, ["a", long])
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith("input[1]: wanted at ")
    for change, where in (({"query": long}, "query"), ({"texts": [long]}, "t")):
        body = {"query": "a", "texts": ["b"]} | change
        answer = ranker.post("/rerank", json=body)
        assert answer.status_code == 400
        assert answer.json()["error"].startswith(where)
        assert "normalised" in answer.json()["error"]


@pytest.mark.parametrize(
    "change",
    [
        {"query": ""},
        {"query": 1},
        {"texts": []},
        {"texts": ["a"] * 6},
        {"texts": "a"},
        {"texts": ["a", 1]},
        {"raw_scores": 1},
        {"truncate": "yes"},
        {"truncation_direction": "left"},
        {"top_n": 3},
    ],
)
def test_mistakes_in_rerank(ranker, change):
    body = {"query": "a", "texts": ["b"]} | change
    answer = ranker.post("/rerank", json=body)
    assert answer.status_code == 400
    assert answer.json()["error_type"] == "Validation"
    (member,) = change
    assert member in answer.json()["error"]


def test_vectors_rank_by_cosine(vectors):
    texts = ["zzzz", "A text", "b"]
    body = {"query": "A text", "texts": texts}
    found = vectors.post("/rerank", json=body).json()
    rows = np.asarray([[len(t), ord(t[0]) / 3, 1] for t in ["A text", *texts]])
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    wanted = rows[1:] @ rows[0]
    assert [e["index"] for e in found] == np.argsort(-wanted).tolist()
    np.testing.assert_allclose(
        [e["score"] for e in found], sorted(wanted, reverse=True), rtol=1e-6
    )


@pytest.mark.parametrize(
    "kind, wanted",
    [
        ("cosine", [1.0, 0.0, 0.8]),
        ("dot", [4.0, 0.0, 8.0]),
        ("euclidean", [0.0, -(29.0**0.5), -(13.0**0.5)]),
        ("manhattan", [0.0, -7.0, -5.0]),
        ("another", [1.0, 0.0, 0.8]),
    ],
)
def test_vectors_are_compared_as_the_export_says(kind, wanted):
    """A model of dot products had another order by cosines."""
    rows = np.asarray([[2.0, 0.0], [2.0, 0.0], [0.0, 5.0], [4.0, 3.0]])
    answers = [{"embedding": row} for row in rows]
    texts = {"dtype": "string", "shape": [None]}
    vector = {"dtype": "float32", "shape": [None, 2]}
    about = {
        "signatures": {
            "serving_default": {
                "inputs": {"text": texts},
                "outputs": {"embedding": vector},
            }
        },
        "data_options": {"similarity": kind},
    }
    body = b'{"query": "q", "texts": ["a", "b", "c"]}'
    question = clients.parse_rerank(body, about, ServerOptions())
    found = clients._scores(question, answers)
    np.testing.assert_allclose(found, wanted, atol=1e-12)


def test_a_regression_of_two_texts_ranks():
    body = {"query": "abc", "texts": ["xyz", "cab"], "raw_scores": True}
    with _client(Similarity()) as client:
        found = client.post("/rerank", json=body).json()
    assert found == [{"index": 1, "score": 3.0}, {"index": 0, "score": 0.0}]


def test_models_that_cannot_say_so_and_do_not_offer():
    with _client(Classes()) as client:
        answer = _embed(client, "a")
        assert "--task=embedding" in answer.json()["error"]["message"]
        body = {"query": "a", "texts": ["b"]}
        assert client.post("/rerank", json=body).status_code == 400
        paths = client.get("/openapi.json").json()["paths"]
    assert "/rerank" not in paths and "/v1/embeddings" not in paths
    with _client(Ranker()) as client:
        assert _embed(client, "a").status_code == 400
        assert "/rerank" in client.get("/openapi.json").json()["paths"]


def test_keys_limits_and_metrics_are_those_of_predict(tmp_path):
    key = "k" * 32
    digest = hashlib.sha256(key.encode()).hexdigest()
    keys = tmp_path / "keys.txt"
    keys.write_text(f"ada sha256:{digest}\n")
    with _client(Vectors(), api_keys_file=str(keys), max_cost=50) as client:
        answer = _embed(client, "a")
        assert answer.status_code == 401
        assert answer.json()["error"]["code"] == "invalid_api_key"
        assert client.get("/v1/models").status_code == 401
        client.headers["Authorization"] = f"Bearer {key}"
        assert _embed(client, "a").status_code == 200
        answer = _embed(client, ["a" * 40] * 5)
        assert answer.status_code == 400
        assert "--max_cost" in answer.json()["error"]["message"]
        text = client.get("/metrics").text
    assert 'xlnet_requests_total{status="200"} 1.0' in text
    assert 'xlnet_requests_total{status="400"} 1.0' in text


@pytest.fixture(scope="module")
def port():
    options = ServerOptions(max_instances=5, max_requests_per_address=0.0)
    with in_thread(Vectors(), options) as server:
        yield server.port


def test_the_real_client(port):
    openai = pytest.importorskip("openai")
    base = f"http://127.0.0.1:{port}/v1"
    client = openai.OpenAI(base_url=base, api_key="none", max_retries=0)
    (model,) = client.models.list()
    wanted = [[1, 97 / 3, 1], [2, 98 / 3, 1]]
    for form in (openai.omit, "float", "base64"):  # its own default is base64
        found = client.embeddings.create(
            model=model.id, input=["a", "bb"], encoding_format=form
        )
        vectors = [item.embedding for item in found.data]
        if form == "base64":
            raw = [base64.b64decode(v) for v in vectors]
            vectors = [np.frombuffer(v, "<f4") for v in raw]
        np.testing.assert_allclose(vectors, wanted, rtol=1e-6)
        assert found.usage.prompt_tokens == 7
    found = client.embeddings.create(model=model.id, input=[[5, 6], [7]])
    assert [item.embedding[0] for item in found.data] == [2, 1]
    with pytest.raises(openai.NotFoundError) as caught:
        client.embeddings.create(model="other", input="a")
    assert caught.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError, match="wanted 3") as caught:
        client.embeddings.create(model=model.id, input="a", dimensions=2)
    assert caught.value.param == "dimensions"
    assert json.loads(caught.value.response.text)["error"]["message"]
