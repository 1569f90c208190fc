"""What values must be before a model sees them; used by commands and server."""

from collections.abc import Mapping

import numpy as np

from common import encodings
from common.errors import UserError

INT32 = (-(2**31), 2**31 - 1)
MAX_NUMBERS = 1_000_000  # of one row


def check_text(text: object, where: str, max_chars: int) -> str:
    """Returns `text`, of any type, if a model can take it.

    Raises UserError, one line that begins with `where` ("instances[3].text"):
    no string, empty, too long, NUL, lone surrogates.
    """
    if not isinstance(text, str):
        raise UserError(
            f"{where}: wanted a string, found {type(text).__name__}"
        )
    if not text.strip():
        raise UserError(f"{where}: the text is empty; give some characters")
    if len(text) > max_chars:
        raise UserError(
            f"{where}: wanted at most {max_chars} characters, found "
            f"{len(text)}; cut the text or raise --max_chars"
        )
    if "\x00" in text:
        raise UserError(
            f"{where}: found a NUL character at {text.index(chr(0))}; remove it"
        )
    if problem := encodings.half_pair(text):
        raise UserError(f"{where}: {problem}")
    return text


def check_numbers(
    value: object, dtype: str, where: str, max_numbers: int
) -> np.ndarray:
    """Nested lists of numbers as an array of `dtype`.

    Raises UserError, one line: no number, too many, ragged, or none of `dtype`.
    """
    kinds = (int,) if dtype.startswith("int") else (int, float)
    count = _count_numbers(value, kinds, where)
    if count > max_numbers:
        raise UserError(
            f"{where}: wanted at most {max_numbers} numbers, found {count}"
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
        if low < INT32[0] or high > INT32[1]:
            raise UserError(f"{where}: a number does not fit 32 bits")
    with np.errstate(over="ignore"):  # the next line says it in words
        array = array.astype(dtype)
    if not np.isfinite(array).all():
        raise UserError(f"{where}: a number is not finite in {dtype}")
    return array


def check_output(values, what: str) -> None:
    """UserError: a model gave for `what` something that is no number.

    JSON has no form of it, and classes, orders and texts would be made of it.
    """
    if not np.isfinite(values).all():
        raise UserError(
            f"the model's output for {what} is not finite: wanted numbers, "
            f"found {np.min(values)}; check the checkpoint"
        )


def check_lists(row: Mapping, specs: Mapping[str, Mapping], where: str) -> None:
    """UserError: numbers of a list's texts are not as many as the texts.

    `row` holds checked values, `specs` are the inputs' dtype and shape with the
    batch.
    """
    lists = [name for name, spec in specs.items() if len(spec["shape"]) == 2]
    texts = [name for name in lists if specs[name]["dtype"] == "string"]
    for text in texts:
        for name in lists:
            wanted, found = len(row[text]), len(row[name])
            if found != wanted:
                raise UserError(
                    f"{where}: {name}: wanted {wanted}, as many as {text}, "
                    f"found {found}"
                )


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
