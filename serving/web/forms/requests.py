"""JSON bodies in TF-Serving's REST shape -> columns of checked values."""

import json
from collections.abc import Mapping
from typing import NamedTuple

from common.checks import each_key_once
from common.errors import UserError
from serving.options import ServerOptions
from serving.web.forms import inputs

RAW = "serving_default"


class Request(NamedTuple):
    """A checked request."""

    signature: str
    rows: list[dict]  # one dict of input values per instance
    # "instances" in, "predictions" out; else "inputs", "outputs"
    row_format: bool


def parse_body(body: bytes) -> dict:
    """The JSON object of a body.

    Raises UserError: no UTF-8, no JSON, no object, or a key twice.
    """
    try:
        value = json.loads(
            body.decode("utf-8"),
            parse_constant=_refuse,
            object_pairs_hook=each_key_once,
        )
    except UnicodeDecodeError as e:
        raise UserError(f"the body is not UTF-8 at byte {e.start}") from e
    except RecursionError as e:
        raise UserError("the body is nested too deeply") from e
    except ValueError as e:
        raise UserError(f"the body is not valid JSON: {e}") from e
    if not isinstance(value, dict):
        raise UserError(
            f"the body must be a JSON object, found {type(value).__name__}"
        )
    return value


def parse_request(
    body: bytes, description: Mapping, limit: ServerOptions
) -> Request:
    """A predict request, checked against `signature.json`.

    Raises UserError, one line that says what is wrong.
    """
    value = parse_body(body)
    signatures = description["signatures"]
    unknown = set(value) - {"signature_name", "instances", "inputs"}
    if unknown:
        raise UserError(
            f"unknown key {sorted(unknown)[0][:40]!r}: wanted signature_name, "
            "instances or inputs"
        )
    name = value.get("signature_name", RAW)
    name = RAW if name == "" else name  # as TF-Serving
    if not isinstance(name, str) or name not in signatures:
        raise UserError(
            f"signature_name must be one of {sorted(signatures)}, received "
            f"{str(name)[:40]!r}"
        )
    specs = signatures[name]["inputs"]
    if ("instances" in value) == ("inputs" in value):
        raise UserError('give one of "instances" and "inputs"')
    row_format = "instances" in value
    if row_format:
        rows = _rows(value["instances"], list(specs))
    else:
        rows = _columns(value["inputs"], specs)
    if not 1 <= len(rows) <= limit.max_instances:
        raise UserError(
            f"wanted 1 to {limit.max_instances} instances, found {len(rows)}"
        )
    checked = [
        inputs.check_row(row, specs, f"instances[{i}]", limit, description)
        for i, row in enumerate(rows)
    ]
    inputs.check_equal_shapes(checked, "instances")
    return Request(name, checked, row_format)


def _refuse(text: str):
    raise ValueError(f"{text} is not a JSON number")


def _rows(instances, names: list[str]) -> list[dict]:
    if not isinstance(instances, list):
        raise UserError('"instances" must be a list')
    rows = []
    for i, instance in enumerate(instances):
        plain = not isinstance(instance, dict) or inputs.is_base64(instance)
        if len(names) == 1 and plain:
            instance = {names[0]: instance}
        if not isinstance(instance, dict) or set(instance) != set(names):
            found = (
                sorted(map(str, instance))
                if isinstance(instance, dict)
                else type(instance).__name__
            )
            raise UserError(
                f"instances[{i}]: wanted an object with the keys {names}, "
                f"found {str(found)[:80]}"
            )
        rows.append(instance)
    return rows


def _columns(columns, specs: Mapping[str, dict]) -> list[dict]:
    names = list(specs)
    if len(names) == 1 and not isinstance(columns, dict):
        columns = {names[0]: columns}
    if not isinstance(columns, dict) or set(columns) != set(names):
        raise UserError(f'"inputs" must be an object with the keys {names}')
    shared = {n: columns[n] for n in names if not specs[n]["shape"]}
    lists = {n: v for n, v in columns.items() if n not in shared}
    if not all(isinstance(v, list) for v in lists.values()):
        raise UserError('every value of "inputs" must be a list over rows')
    counts = {len(v) for v in lists.values()}
    if len(counts) != 1:
        raise UserError('the lists of "inputs" differ in length')
    return [
        {n: shared[n] if n in shared else lists[n][i] for n in names}
        for i in range(counts.pop())
    ]
