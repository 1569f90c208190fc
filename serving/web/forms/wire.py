"""Answers as the bytes that TF-Serving's REST interface sends.

Row format: {"predictions": [...]}, one element per instance; column format:
{"outputs": ...}. The name of an output is left out where it is the only one.
Numbers are the shortest of 6 and 9 (float) or 17 (double) digits that read
back as the same number, with a point; NaN and Infinity are written as such.
Indentation is that of its writer, members are sorted by name. Strings whose
output's name ends in `_bytes` are {"b64": ...}.
"""

import base64
import json
import math
import re
from collections.abc import Mapping, Sequence

import numpy as np

from serving.exported import rows as rows_lib

# Paths whose errors have the form of other programs.
EMBEDDINGS, MODELS, RERANK = "/v1/embeddings", "/v1/models", "/rerank"
_MEMBER = re.compile(r"(input|model|encoding_format|dimensions)[:.\[]")
_BYTES = "_bytes"
_INDENT = 4 * " "


def predictions(rows: Sequence[Mapping[str, object]]) -> bytes:
    """The answer to `instances`: one mapping of outputs per row."""
    elements = []
    for row in rows:
        if len(row) == 1:
            ((name, value),) = row.items()
            elements.append(_line(value, name.endswith(_BYTES), 2))
            continue
        members = [
            f"\n{3 * _INDENT}{json.dumps(name)}: "
            + _line(value, name.endswith(_BYTES), 3)
            for name, value in sorted(row.items())
        ]
        text = ",".join(members)
        elements.append(f"\n{2 * _INDENT}{{{text}\n{2 * _INDENT}}}")
    glue = ", " if rows and len(rows[0]) == 1 else ","
    text = glue.join(elements)
    return f'{{\n{_INDENT}"predictions": [{text}\n{_INDENT}]\n}}'.encode()


def outputs(rows: Sequence[Mapping[str, object]]) -> bytes:
    """The answer to `inputs`: every output with its rows."""
    columns = {name: [row[name] for row in rows] for name in sorted(rows[0])}
    if len(columns) == 1:
        ((name, column),) = columns.items()
        text = _block(column, name.endswith(_BYTES), 1)
    else:
        members = [
            f"\n{2 * _INDENT}{json.dumps(name)}: "
            + _block(column, name.endswith(_BYTES), 2)
            for name, column in columns.items()
        ]
        text = "{" + ",".join(members) + f"\n{_INDENT}}}"
    return f'{{\n{_INDENT}"outputs": {text}\n}}'.encode()


def answers(description: Mapping, rows: Sequence[Mapping]) -> bytes:
    """{"answers": [...]}, the form for people: see `serving.exported.rows`."""
    shown = [
        rows_lib.format_row(description, {k: [v] for k, v in row.items()}, 0)
        for row in rows
    ]
    return json.dumps({"answers": shown}, ensure_ascii=False).encode()


def error(message: str, status: int = 400, path: str = "") -> bytes:
    """{"error": message}, or what clients of a path's form want of it."""
    if path in (EMBEDDINGS, MODELS):
        value: object = _openai_error(message, status)
    elif path == RERANK:
        kinds = {413: "Validation", 429: "Overloaded", 503: "Overloaded"}
        kind = kinds.get(status, "Validation" if status < 500 else "Backend")
        value = {"error": message, "error_type": kind}
    else:
        text = json.dumps(message, ensure_ascii=False)
        return f'{{\n{_INDENT}"error": {text}\n}}'.encode()
    return json.dumps(value, ensure_ascii=False).encode()


def _openai_error(message: str, status: int) -> dict:
    """The member that a message begins with is `param`."""
    member = _MEMBER.match(message)
    codes = {
        401: "invalid_api_key",
        404: "model_not_found",
        429: "rate_limit_exceeded",
    }
    return {
        "error": {
            "message": message,
            "type": "invalid_request_error" if status < 500 else "server_error",
            "param": member[1] if member else None,
            "code": codes.get(status),
        }
    }


def _line(value, as_bytes: bool, depth: int) -> str:
    """A value with its lists in one line."""
    if _is_list(value):
        items = (_line(v, as_bytes, depth + 1) for v in value)
        return "[" + ", ".join(items) + "]"
    return _scalar(value, as_bytes, depth)


def _block(value, as_bytes: bool, depth: int) -> str:
    """A value with one item of a list per line."""
    if not _is_list(value):
        return _scalar(value, as_bytes, depth)
    if len(value) == 0:
        return "[]"
    start = "\n" + (depth + 1) * _INDENT
    items = (start + _block(v, as_bytes, depth + 1) for v in value)
    return "[" + ",".join(items) + "\n" + depth * _INDENT + "]"


def _is_list(value) -> bool:
    return isinstance(value, list) or np.ndim(value) > 0


def _scalar(value, as_bytes: bool, depth: int) -> str:
    if isinstance(value, np.ndarray):
        value = value[()]
    if isinstance(value, (bytes, str, np.bytes_)):
        raw = value.encode() if isinstance(value, str) else bytes(value)
        if as_bytes:
            inner = "\n" + (depth + 1) * _INDENT
            text = base64.b64encode(raw).decode()
            return f'{{{inner}"b64": "{text}"\n{depth * _INDENT}}}'
        return json.dumps(raw.decode("utf-8", "replace"), ensure_ascii=False)
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    return _decimal(value)


def _decimal(value) -> str:
    number = float(value)
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "-Infinity" if number < 0 else "Infinity"
    single = getattr(value, "itemsize", 8) <= 4
    kind, digits = (np.float32, 9) if single else (float, 17)
    text = f"{number:.6g}"
    if kind(text) != value:
        text = f"{number:.{digits}g}"
    return text if set(text) & set(".e") else text + ".0"
