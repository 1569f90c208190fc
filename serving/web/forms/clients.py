"""Questions in other programs' forms, asked of the same model.

| call | form | exports that answer |
|---|---|---|
| `/v1/embeddings` | OpenAI's | those with an output `embedding` |
| `/rerank` | text-embeddings-inference's | rankers; regressions of two texts; embeddings, as their folder compares them |

A question becomes rows of one signature, which the scheduler runs as those of
`:predict`.
"""

import base64
import json
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from common.errors import UserError
from serving.options import SIMILARITIES, ServerOptions
from serving.web.forms import inputs
from serving.web.forms.requests import RAW, parse_body

PIECES, VECTOR = "pieces", "embedding"


class Embeddings(NamedTuple):
    """Texts whose vectors are wanted."""

    signature: str
    rows: list[dict]  # one per text, of equal shapes
    model: str
    as_base64: bool  # vectors as bytes of little-endian float32


class Rerank(NamedTuple):
    """Texts to be put into the order in which they fit a query."""

    # one per text; where vectors are compared the query's comes first
    rows: list[dict]
    texts: tuple[str, ...]  # as they came; () = not given back
    output: str  # that holds the score, or `VECTOR`
    raw_scores: bool  # else those of rankers are taken through a sigmoid
    may_cut: bool  # texts that are too long are cut, else refused
    similarity: str = SIMILARITIES[0]  # of two vectors


def gives_vectors(description: Mapping) -> bool:
    """Whether an export answers `/v1/embeddings`."""
    raw = description["signatures"][RAW]
    return set(raw["inputs"]) == {"text"} and VECTOR in raw["outputs"]


def ranks(description: Mapping) -> bool:
    """Whether an export answers `/rerank`."""
    return bool(_score_of(description))


def parse_embeddings(
    body: bytes, description: Mapping, limit: ServerOptions
) -> Embeddings:
    """OpenAI's form; UserError, one line, begins with the wrong member."""
    value = parse_body(body)
    if not gives_vectors(description):
        raise UserError(
            "model: this one gives no vectors; export one with "
            "`python -m serving.export --task=embedding`"
        )
    known = ("input", "model", "encoding_format", "dimensions", "user")
    _check_members(value, known, ("input", "model"))
    form = value.get("encoding_format")
    form = "float" if form is None else form
    if form not in ("float", "base64"):
        raise UserError(
            f'encoding_format: wanted "float" or "base64", found {_shown(form)}'
        )
    (_, width) = description["signatures"][RAW]["outputs"][VECTOR]["shape"]
    asked = value.get("dimensions")
    if asked is not None and (asked != width or isinstance(asked, bool)):
        raise UserError(
            f"dimensions: wanted {width}, all that this model has: a part of "
            f"its vectors is not an embedding; found {_shown(asked)}"
        )
    if not isinstance(value["model"], str):
        raise UserError(f"model: wanted a name, found {_shown(value['model'])}")
    signature, rows = _inputs_of(value["input"], description, limit)
    return Embeddings(signature, rows, value["model"], form == "base64")


def _inputs_of(value, description: Mapping, limit: ServerOptions):
    """(signature, rows) of a text, texts, ids, or lists of ids."""
    one = isinstance(value, str) or (
        isinstance(value, list) and value and _is_id(value[0])
    )
    items = [value] if one else value
    if not isinstance(items, list) or not (
        1 <= len(items) <= limit.max_instances
    ):
        raise UserError(
            f"input: wanted a text or 1 to {limit.max_instances} of them, or "
            f"lists of ids, found {_shown(value)}"
        )
    places = ["input" if one else f"input[{i}]" for i in range(len(items))]
    if not isinstance(items[0], list):
        checked = [
            inputs.check_text(item, where, limit)
            for item, where in zip(items, places, strict=True)
        ]
        return RAW, [{"text": text} for text in checked]
    if PIECES not in description["signatures"]:
        raise UserError("input: this model takes texts, no ids")
    specs = {"input_ids": {"dtype": "int32", "shape": [None, None]}}
    rows = [
        inputs.check_row({"input_ids": item}, specs, where, limit, description)
        for item, where in zip(items, places, strict=True)
    ]
    ids = [row["input_ids"] for row in rows]
    width = max(map(len, ids))
    return PIECES, [
        {
            "input_ids": np.pad(row, (0, width - len(row))),
            "input_mask": np.pad(np.ones_like(row), (0, width - len(row))),
        }
        for row in ids
    ]


def _is_id(value) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def write_embeddings(question: Embeddings, answers: list[dict]) -> bytes:
    """OpenAI's answer; `truncated` is added where a text was cut."""
    data, tokens = [], 0
    for i, answer in enumerate(answers):
        vector = np.asarray(answer[VECTOR], "<f4")
        entry = {"object": "embedding", "index": i}
        if question.as_base64:
            entry["embedding"] = base64.b64encode(vector.tobytes()).decode()
        else:
            entry["embedding"] = [float(f"{x:.9g}") for x in vector]
        if answer["truncated"]:
            entry["truncated"] = True
        data.append(entry)
        tokens += int(answer["num_tokens"])
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    value = {"object": "list", "data": data, "model": question.model}
    return json.dumps(value | {"usage": usage}).encode()


def write_models(name: str) -> bytes:
    """OpenAI's list of models: the one that is served."""
    about = {"id": name, "object": "model", "created": 0, "owned_by": "local"}
    return json.dumps({"object": "list", "data": [about]}).encode()


def parse_rerank(
    body: bytes, description: Mapping, limit: ServerOptions
) -> Rerank:
    """text-embeddings-inference's form; UserError as `parse_embeddings`."""
    value = parse_body(body)
    output = _score_of(description)
    if "candidate_scores" in description["signatures"][RAW]["inputs"]:
        raise UserError(
            "this ranker also wants the score of each candidate, which this "
            "form does not have: ask :predict with `candidate_scores`, or "
            "train with --nowith_candidate_score"
        )
    if not output:
        raise UserError(
            "this model compares no texts: serve a ranker, a regression of "
            "two texts, or an export of --task=embedding"
        )
    flags = ("raw_scores", "return_text", "truncate")
    known = ("query", "texts", *flags, "truncation_direction")
    _check_members(value, known, ("query", "texts"))
    for name in flags:
        if not isinstance(value.get(name, False), bool | None):
            raise UserError(
                f"{name}: wanted true or false, found {_shown(value[name])}"
            )
    if str(value.get("truncation_direction", "right")).lower() != "right":
        raise UserError('truncation_direction: wanted "right"')
    texts = value["texts"]
    if not isinstance(texts, list) or not 1 <= len(texts) <= (
        limit.max_instances
    ):
        raise UserError(
            f"texts: wanted 1 to {limit.max_instances} texts, found "
            f"{_shown(texts)}"
        )
    query = inputs.check_text(value["query"], "query", limit)
    for i, text in enumerate(texts):
        inputs.check_text(text, f"texts[{i}]", limit)
    return Rerank(
        _pairs(output, query, texts),
        tuple(texts) if value.get("return_text") else (),
        output,
        bool(value.get("raw_scores")),
        value.get("truncate") is not False,
        # Exports of older versions do not say it.
        description.get("data_options", {}).get("similarity", SIMILARITIES[0]),
    )


def _score_of(description: Mapping) -> str:
    """The output of the raw signature that `/rerank` orders by, or ""."""
    names = set(description["signatures"][RAW]["inputs"])
    if names == {"query", "documents"}:
        return "scores"
    if names == {"text_a", "text_b"} and description.get("head") == (
        "regression"
    ):
        return "value"
    return VECTOR if gives_vectors(description) else ""


def _pairs(output: str, query: str, texts: list[str]) -> list[dict]:
    if output == "scores":
        return [{"query": query, "documents": [text]} for text in texts]
    if output == "value":
        return [{"text_a": query, "text_b": text} for text in texts]
    return [{"text": text} for text in (query, *texts)]


def too_long(question: Rerank, answers: list[dict]) -> str:
    """What the model did not read all of, where that is not wanted, or ""."""
    cut = [] if question.may_cut else np.flatnonzero(_cut(question, answers))
    if not len(cut):
        return ""
    name = f"texts[{cut[0]}]"
    if question.output == VECTOR and answers[0]["truncated"]:
        name = "query"
    return (
        f"{name}: it is longer than the model reads (a text with the query); "
        "send less, or leave `truncate` out to have it cut"
    )


def _cut(question: Rerank, answers: list[dict]) -> list[bool]:
    """Of each text: whether the end of it or of the query was not read."""
    truncated = [bool(np.any(answer["truncated"])) for answer in answers]
    if question.output == VECTOR:
        return [truncated[0] or cut for cut in truncated[1:]]
    return truncated


def write_rerank(question: Rerank, answers: list[dict]) -> bytes:
    """The texts' places and scores, the best first."""
    scores, cut = _scores(question, answers), _cut(question, answers)
    results = []
    shown = scores
    if question.output != VECTOR and not question.raw_scores:
        shown = _sigmoid(scores)
    # By what the model gave: the sigmoid of large scores is 1. Stable.
    for i in np.argsort(-scores, kind="stable").tolist():
        entry = {"index": i, "score": float(f"{shown[i]:.9g}")}
        if question.texts:
            entry["text"] = question.texts[i]
        if cut[i]:
            entry["truncated"] = True
        results.append(entry)
    return json.dumps(results, ensure_ascii=False).encode()


def _scores(question: Rerank, answers: list[dict]) -> np.ndarray:
    """float64 [N], how alike vectors are, or what the model gave."""
    values = [np.asarray(a[question.output], np.float64) for a in answers]
    if question.output == VECTOR:
        vectors = np.stack(values)
        return _compared(vectors[0], vectors[1:], question.similarity)
    return np.asarray([value.reshape(-1)[0] for value in values])


def _compared(query: np.ndarray, texts: np.ndarray, kind: str) -> np.ndarray:
    """[N] of float64 [D] and [N, D]: the larger, the more alike."""
    if kind == "euclidean":
        return -np.linalg.norm(texts - query, axis=1)
    if kind == "manhattan":
        return -np.abs(texts - query).sum(1)
    products = texts @ query
    if kind == "dot":
        return products
    sizes = np.linalg.norm(texts, axis=1) * np.linalg.norm(query)
    return products / np.maximum(sizes, 1e-12)


def _sigmoid(logits: np.ndarray) -> np.ndarray:
    """float64 [N]; small values keep their digits."""
    small = np.exp(-np.abs(logits))
    return np.where(logits < 0, small, 1.0) / (1.0 + small)


def _check_members(value: dict, known, wanted) -> None:
    for name in value:
        if name not in known:
            raise UserError(
                f"unknown key {name[:40]!r}: wanted {', '.join(known)}"
            )
    for name in wanted:
        if name not in value:
            raise UserError(f"{name}: it is missing")


def _shown(value) -> str:
    if isinstance(value, list):
        return f"{len(value)} of them"
    return json.dumps(value)[:40]
