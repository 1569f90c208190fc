"""The OpenAPI description of the server, from a model's `signature.json`."""

from collections.abc import Callable, Collection, Mapping

import fastapi

from serving.options import ServerOptions
from serving.web.forms import clients, inputs, wire
from serving.web.forms.requests import RAW

# No NUL, and something else than white space.
_TEXT_PATTERN = r"^[^\u0000]*[^\s\u0000][^\u0000]*$"
_EMPTY_PATTERN = r"^[^\u0000]*$"  # white space will do

# Of errors: by path where `wire.error` writes another form than ":predict"'s.
_STRING = {"type": "string"}
_OPENAI_ERROR = {
    "error": {
        "type": "object",
        "properties": {
            "message": _STRING,
            "type": _STRING,
            "param": {"type": ["string", "null"]},
            "code": {"type": ["string", "null"]},
        },
        "required": ["message", "type", "param", "code"],
    }
}
_ERRORS = {
    wire.EMBEDDINGS: _OPENAI_ERROR,
    wire.MODELS: _OPENAI_ERROR,
    wire.RERANK: {"error": _STRING, "error_type": _STRING},
}
_MEANINGS = {
    400: "The request is wrong; the line says where.",
    401: "No known API key.",
    403: "The Host header, or the page that sends this, is not allowed.",
    404: "No such model.",
    408: "The body came too slowly.",
    413: "The body, or a text that is not to be cut, is too large.",
    415: "The body has a Content-Encoding.",
    429: "Too many requests of this address; Retry-After says when to ask.",
    503: "Busy, ending, or too many requests are waiting.",
    504: "The answer took too long.",
}


def responses(path: str, *codes: int) -> dict:
    """Documented error answers of a path."""
    members = _ERRORS.get(path, {"error": _STRING})
    schema = {
        "type": "object",
        "properties": members,
        "required": list(members),
    }
    return {
        code: {
            "description": _MEANINGS[code],
            "content": {"application/json": {"schema": schema}},
        }
        for code in codes
    }


def finish(
    app: fastapi.FastAPI,
    served: Callable,
    options: ServerOptions,
    open_paths: Collection[str],
) -> None:
    """Makes `/openapi.json` that of the version that is served now.

    It has the calls that this version answers. Bodies are checked here, so no
    call ever answers FastAPI's 422.
    """
    make = app.openapi

    def openapi() -> dict:
        model = served()
        if app.version != str(model.version):
            app.version, app.openapi_schema = str(model.version), None
        document = make()
        bodies = _bodies(model.description, options)
        document.pop("components", None)  # of the 422
        everywhere = (403, 429) if options.max_requests_per_address else (403,)
        for name, path in list(document["paths"].items()):
            if "post" in path:
                body = bodies.get(name.rpartition(":")[2])
                if body is None:
                    del document["paths"][name]
                    continue
                path["post"] |= body
            for call in path.values():
                call["responses"].pop("422", None)
                _add_answers(call, name, everywhere)
                _name_the_model(call, options.model_name)
        if options.api_keys_file:
            _add_keys(document, open_paths)
        return document

    app.openapi = openapi


def _bodies(about: Mapping, options: ServerOptions) -> dict[str, dict]:
    """What calls take, by the end of their paths; of those that are answered."""
    predict = predict_body(about, options)
    bodies = {"predict": predict, "/answer": predict}
    if clients.gives_vectors(about):
        bodies[wire.EMBEDDINGS] = embeddings_body(about, options)
    if clients.ranks(about):
        bodies[wire.RERANK] = rerank_body(options)
    return bodies


def _add_answers(call: dict, path: str, codes: Collection[int]) -> None:
    """Documents what the server may answer before the application."""
    more = responses(path, *codes)
    call["responses"] |= {str(code): more[code] for code in codes}


def _name_the_model(call: dict, name: str) -> None:
    """Leaves the parameters of the path: handlers read no query."""
    if "parameters" not in call:
        return
    kept = [p for p in call["parameters"] if p["in"] == "path"]
    for parameter in kept:
        if parameter["name"] == "name":
            parameter["schema"]["enum"] = [name]
    call["parameters"] = kept


def _add_keys(described: dict, open_paths: Collection[str]) -> None:
    """Says in an OpenAPI description which calls need an API key."""
    described.setdefault("components", {})["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer"},
        "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    }
    described["security"] = [{"bearer": []}, {"header": []}]
    for path, calls in described["paths"].items():
        for call in calls.values():
            if path in open_paths:
                call["security"] = []
            else:
                _add_answers(call, path, (401,))


def predict_body(description: dict, limit: ServerOptions) -> dict:
    """`openapi_extra` of the predict call: rows of the raw-text signature."""
    specs = description["signatures"][RAW]["inputs"]
    empty = inputs.may_be_empty(specs, description)
    row = {
        "type": "object",
        "properties": {
            k: _value(v, limit, k in empty) for k, v in specs.items()
        },
        "required": sorted(specs),
        "additionalProperties": False,
    }
    if len(specs) == 1:  # the bare value will do
        row = {"anyOf": [row, *row["properties"].values()]}
    return _object(
        {
            "signature_name": {"type": "string", "enum": [RAW]},
            "instances": _list(row, limit),
        },
        ("instances",),
    )


def embeddings_body(description: dict, limit: ServerOptions) -> dict:
    """`openapi_extra` of `/v1/embeddings`: texts, ids where they are taken."""
    text = _text(limit)
    kinds = [text, _list(text, limit)]
    if clients.PIECES in description["signatures"]:
        ids = {"type": "array", "items": {"type": "integer"}, "minItems": 1}
        kinds += [ids, _list(ids, limit)]
    vector = description["signatures"][RAW]["outputs"].get(clients.VECTOR)
    size = vector["shape"][-1] if vector else None
    dimensions = {"dimensions": {"type": "integer", "enum": [size]}}
    return _object(
        {
            "input": {"anyOf": kinds},
            "model": {"type": "string", "enum": [limit.model_name]},
            "encoding_format": {"type": "string", "enum": ["float", "base64"]},
            **(dimensions if size else {}),
            "user": {"type": "string"},
        },
        ("input", "model"),
    )


def rerank_body(limit: ServerOptions) -> dict:
    """`openapi_extra` of `/rerank`."""
    flags = ("raw_scores", "return_text", "truncate")
    return _object(
        {
            "query": _text(limit),
            "texts": _list(_text(limit), limit),
            **{name: {"type": "boolean"} for name in flags},
            "truncation_direction": {
                "type": "string",
                "enum": ["right", "Right"],
            },
        },
        ("query", "texts"),
    )


def _object(properties: dict, required: Collection[str]) -> dict:
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }
    content = {"application/json": {"schema": schema}}
    return {"requestBody": {"required": True, "content": content}}


def _list(items: dict, limit: ServerOptions) -> dict:
    return {
        "type": "array",
        "items": items,
        "minItems": 1,
        "maxItems": limit.max_instances,
    }


def _text(limit: ServerOptions, empty: bool = False) -> dict:
    return {
        "type": "string",
        "minLength": 0 if empty else 1,
        "maxLength": limit.max_chars,
        "pattern": _EMPTY_PATTERN if empty else _TEXT_PATTERN,
    }


def _value(spec: dict, limit: ServerOptions, empty: bool) -> dict:
    if spec["dtype"] != "string":
        return _numbers(len(spec["shape"]) - 1, spec["dtype"])
    text = _text(limit, empty)
    if len(spec["shape"]) == 1:
        return text
    return {"type": "array", "items": text, "minItems": 1, "maxItems": 64}


def _numbers(rank: int, dtype: str) -> dict:
    if rank <= 0:
        return {"type": "integer" if dtype.startswith("int") else "number"}
    return {"type": "array", "items": _numbers(rank - 1, dtype)}
