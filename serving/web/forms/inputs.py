"""Values of one row of a request: types, shapes, ranges, and how they fit.

The tensors of a row that run along its tokens must have one length: a mask of
another length would broadcast and give wrong numbers without an error.
"""

import base64
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from common.errors import UserError
from data.finetuning.features.pair_features import SEGMENT_IDS
from data.text.normalization import most_chars
from serving.exported import limits
from serving.options import ServerOptions

_INT32 = limits.INT32
_TOKEN_INPUTS = ("input_ids", "segment_ids", "input_mask", "paragraph_mask")
_MASKS = ("input_mask", "paragraph_mask")
# Settings of generation: their least and largest values.
_SETTINGS = {
    "max_new_tokens": (1, _INT32[1]),
    "temperature": (0, 1e6),
    "top_k": (0, _INT32[1]),
}
_SHARED = (*_SETTINGS, "seed")  # one value for all rows
# Korean of `max_chars` becomes 3 times as long; one character may become 18.
_MOST_GROWTH = 3
_MAX_TEXTS = 64  # strings of a list, e.g. the options of a question


def check_row(
    row: Mapping,
    specs: Mapping[str, dict],
    where: str,
    limit: ServerOptions,
    known: Mapping = MappingProxyType({}),
) -> dict:
    """The row's values as a model takes them.

    `specs` are input name -> dtype and shape with the batch. `known` is
    `signature.json`: `vocab_size` and, of encoders that have them,
    `type_vocab_size` and `max_position_embeddings` bound ids, segments and
    lengths; its `data_options` say whether a second text may be empty. Raises
    UserError: one line that says what is wrong.
    """
    empty = may_be_empty(specs, known)
    checked = {
        key: ""  # as in training: there is no such text
        if key in empty and _is_blank(row[key], f"{where}.{key}")
        else _check(row[key], spec, f"{where}.{key}", limit)
        for key, spec in specs.items()
    }
    limits.check_lists(checked, specs, where)
    _check_lengths(checked, where, known.get("max_position_embeddings"))
    _check_ranges(checked, where, known)
    return checked


def _is_blank(value: object, where: str) -> bool:
    text = _decoded(value, where)
    return isinstance(text, str) and not text.strip()


def may_be_empty(specs: Mapping[str, dict], known: Mapping) -> set[str]:
    """Texts that may be "": all but the first, where training allowed it."""
    if not known.get("data_options", {}).get("allow_empty_text"):
        return set()
    texts = [n for n, spec in specs.items() if spec["dtype"] == "string"]
    return {n for n in texts[1:] if len(specs[n]["shape"]) == 1}


def check_equal_shapes(rows: list[dict], where: str) -> None:
    """Raises UserError unless the rows fit into one tensor per input."""
    for key, first in rows[0].items():
        for i, row in enumerate(rows):
            if np.shape(row[key]) != np.shape(first):
                raise UserError(
                    f"{where}[{i}].{key}: wanted the shape "
                    f"{list(np.shape(first))} of the first row, found "
                    f"{list(np.shape(row[key]))}; pad it or ask apart"
                )
            if np.ndim(first) == 0 and key in _SHARED and row[key] != first:
                raise UserError(
                    f"{where}[{i}].{key}: wanted {first.item():g}, as the "
                    f"first row has it, found {row[key].item():g}"
                )


def _check_lengths(row: Mapping, where: str, longest: int | None) -> None:
    shapes = {k: row[k].shape for k in _TOKEN_INPUTS if k in row}
    if len(set(shapes.values())) > 1:
        found = ", ".join(f"{k} {list(v)}" for k, v in shapes.items())
        raise UserError(f"{where}: wanted equal shapes, found {found}")
    for name, shape in shapes.items():
        if longest is not None and shape and shape[-1] > longest:
            raise UserError(
                f"{where}.{name}: wanted at most {longest} tokens, the "
                f"encoder has no more positions, found {shape[-1]}"
            )


def _check_ranges(row: Mapping, where: str, known: Mapping) -> None:
    bounds = {name: (0, 1, "0 or 1") for name in _MASKS}
    kinds = known.get("type_vocab_size", max(SEGMENT_IDS) + 1)
    bounds["segment_ids"] = (0, kinds - 1, "a known segment")
    vocab_size = known.get("vocab_size")
    if vocab_size is not None:
        bounds["input_ids"] = (0, vocab_size - 1, "an id of the vocabulary")
    if "input_ids" in row:
        last = row["input_ids"].shape[-1] - 1
        bounds["cls_index"] = (0, last, "a position of the row")
    if "memory" in row:
        slots = row["memory"].shape[-2]
        bounds["memory_length"] = (0, slots, "slots of the memory")
    bounds |= {name: (*pair, "a value") for name, pair in _SETTINGS.items()}
    for name, (low, high, meaning) in bounds.items():
        value = row.get(name)
        if value is None:
            continue
        wrong = value[(value < low) | (value > high)]
        if wrong.size:
            raise UserError(
                f"{where}.{name}: wanted {meaning} ({low} to {high}), found "
                f"{wrong.flat[0]:.9g}"
            )


def _check(value, spec: dict, where: str, limit: ServerOptions):
    """One row's value of one input; texts as str, numbers as arrays."""
    shape = spec["shape"][1:]
    if spec["dtype"] == "string":
        return _check_texts(value, len(shape), where, limit)
    array = limits.check_numbers(value, spec["dtype"], where, limit.max_numbers)
    if array.ndim != len(shape) or any(
        size not in (None, found_size)
        for size, found_size in zip(shape, array.shape, strict=True)
    ):
        raise UserError(
            f"{where}: wanted the shape {shape}, found {list(array.shape)}"
        )
    if array.size == 0:
        raise UserError(f"{where}: the array is empty")
    return array


def _check_texts(value, rank: int, where: str, limit: ServerOptions):
    if rank == 0:
        return check_text(_decoded(value, where), where, limit)
    if not isinstance(value, list) or not 1 <= len(value) <= _MAX_TEXTS:
        raise UserError(f"{where}: wanted a list of 1 to {_MAX_TEXTS} strings")
    places = [f"{where}[{i}]" for i in range(len(value))]
    return [
        check_text(_decoded(v, at), at, limit)
        for v, at in zip(value, places, strict=True)
    ]


def check_text(value: object, where: str, limit: ServerOptions) -> str:
    """`value` if a model can take it as a text, and it does not become long.

    Raises UserError: as `limits.check_text`, and also the text as it is
    normalised must have at most three times `max_chars` characters.
    """
    text = limits.check_text(value, where, limit.max_chars)
    chars, most = most_chars(text), _MOST_GROWTH * limit.max_chars
    if chars > most:
        raise UserError(
            f"{where}: wanted at most {most} characters once the text is "
            f"normalised (NFKD), found {chars}; cut the text or raise "
            "--max_chars"
        )
    return text


def is_base64(value) -> bool:
    """{"b64": "..."}: a string's bytes."""
    return (
        isinstance(value, dict)
        and set(value) == {"b64"}
        and isinstance(value["b64"], str)
    )


def _decoded(value, where: str):
    if not is_base64(value):
        return value
    try:
        return base64.b64decode(value["b64"], validate=True).decode()
    except UnicodeDecodeError as e:
        raise UserError(f"{where}: byte {e.start} is not UTF-8") from e
    except ValueError as e:
        raise UserError(f"{where}: b64 holds no base64") from e
