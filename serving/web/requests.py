"""JSON bodies in TF-Serving's REST shape -> columns of checked values."""

import json
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from common.errors import UserError
from serving import limits
from serving.options import ServerOptions

RAW = "serving_default"
_INT32 = (-(2**31), 2**31 - 1)


class Request(NamedTuple):
    """A checked request.

    Attributes:
      signature: which function.
      rows: one dict of input values per instance.
      row_format: "instances" in, "predictions" out; else "inputs", "outputs".
    """

    signature: str
    rows: list[dict]
    row_format: bool


def parse_body(body: bytes) -> dict:
    """The JSON object of a body.

    Raises:
      UserError: no UTF-8, no JSON, or no object.
    """
    try:
        value = json.loads(body.decode("utf-8"), parse_constant=_refuse)
    except UnicodeDecodeError as e:
        raise UserError(f"the body is not UTF-8 at byte {e.start}") from e
    except RecursionError as e:
        raise UserError("the body is nested too deeply") from e
    except ValueError as e:
        raise UserError(f"the body is no valid JSON: {e}") from e
    if not isinstance(value, dict):
        raise UserError(
            f"the body must be a JSON object, found {type(value).__name__}"
        )
    return value


def parse_request(
    body: bytes, signatures: Mapping[str, dict], limit: ServerOptions
) -> Request:
    """A predict request, checked against `signature.json`.

    Args:
      body: the raw body.
      signatures: the `signatures` of the description.
      limit: see `ServerOptions`.

    Raises:
      UserError: one line that says what is wrong.
    """
    value = parse_body(body)
    unknown = set(value) - {"signature_name", "instances", "inputs"}
    if unknown:
        raise UserError(
            f"unknown key {sorted(unknown)[0][:40]!r}: wanted signature_name, "
            "instances or inputs"
        )
    name = value.get("signature_name", RAW)
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
        rows = _columns(value["inputs"], list(specs))
    if not 1 <= len(rows) <= limit.max_instances:
        raise UserError(
            f"wanted 1 to {limit.max_instances} instances, found {len(rows)}"
        )
    checked = [
        {
            key: _check(row[key], spec, f"instances[{i}].{key}", limit)
            for key, spec in specs.items()
        }
        for i, row in enumerate(rows)
    ]
    return Request(name, checked, row_format)


def _refuse(text: str):
    raise ValueError(f"{text} is no JSON number")


def _rows(instances, names: list[str]) -> list[dict]:
    if not isinstance(instances, list):
        raise UserError('"instances" must be a list')
    rows = []
    for i, instance in enumerate(instances):
        if len(names) == 1 and not isinstance(instance, dict):
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


def _columns(inputs, names: list[str]) -> list[dict]:
    if len(names) == 1 and not isinstance(inputs, dict):
        inputs = {names[0]: inputs}
    if not isinstance(inputs, dict) or set(inputs) != set(names):
        raise UserError(f'"inputs" must be an object with the keys {names}')
    if not all(isinstance(v, list) for v in inputs.values()):
        raise UserError('every value of "inputs" must be a list over rows')
    counts = {len(v) for v in inputs.values()}
    if len(counts) != 1:
        raise UserError('the lists of "inputs" differ in length')
    return [
        {name: inputs[name][i] for name in names} for i in range(counts.pop())
    ]


def _check(value, spec: dict, where: str, limit: ServerOptions):
    """One row's value of one input; texts as str, numbers as arrays."""
    shape = spec["shape"][1:]
    if spec["dtype"] == "string":
        return _check_texts(value, len(shape), where, limit)
    array = _numbers(value, spec["dtype"], where, limit)
    if array.ndim != len(shape) or any(
        size not in (None, found)
        for size, found in zip(shape, array.shape, strict=True)
    ):
        raise UserError(
            f"{where}: wanted the shape {shape}, found {list(array.shape)}"
        )
    if array.size == 0:
        raise UserError(f"{where}: the array is empty")
    return array


def _check_texts(value, rank: int, where: str, limit: ServerOptions):
    if rank == 0:
        return limits.check_text(value, where, limit.max_chars)
    if not isinstance(value, list) or not 1 <= len(value) <= 64:
        raise UserError(f"{where}: wanted a list of 1 to 64 strings")
    return [
        limits.check_text(v, f"{where}[{i}]", limit.max_chars)
        for i, v in enumerate(value)
    ]


def _numbers(value, dtype: str, where: str, limit: ServerOptions) -> np.ndarray:
    kinds = (int,) if dtype.startswith("int") else (int, float)
    count = _count_numbers(value, kinds, where)
    if count > limit.max_numbers:
        raise UserError(
            f"{where}: wanted at most {limit.max_numbers} numbers, found {count}"
        )
    try:
        if dtype.startswith("int"):
            array = np.asarray(value, np.int64)
        else:
            array = np.asarray(value, np.float64)
    except (ValueError, OverflowError) as e:
        raise UserError(f"{where}: the rows differ in length") from e
    if dtype == "int32" and array.size:
        low, high = int(array.min()), int(array.max())
        if low < _INT32[0] or high > _INT32[1]:
            raise UserError(f"{where}: a number does not fit 32 bits")
    array = array.astype(dtype)
    if not np.isfinite(array).all():
        raise UserError(f"{where}: a number is not finite in {dtype}")
    return array


def _count_numbers(value, kinds, where: str) -> int:
    """Numbers in nested lists; anything else is refused."""
    stack, count = [value], 0
    while stack:
        item = stack.pop()
        if isinstance(item, list):
            stack.extend(item)
        elif isinstance(item, bool) or not isinstance(item, kinds):
            raise UserError(
                f"{where}: wanted numbers, found {type(item).__name__}"
            )
        else:
            if isinstance(item, int) and abs(item) >= 2**62:
                raise UserError(f"{where}: a number is too large")
            count += 1
    return count
