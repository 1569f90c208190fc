"""What a text and a list of numbers must be; the first words say where."""

import numpy as np
import pytest

from common.errors import UserError
from serving.exported import limits


@pytest.mark.parametrize(
    "text, message",
    [
        (3, "wanted a string, found int"),
        (None, "wanted a string, found NoneType"),
        (b"a", "wanted a string, found bytes"),
        ("", "the text is empty"),
        (" \t\n\u3000", "the text is empty"),
        ("abcdef", "wanted at most 5 characters, found 6"),
        ("ab\x00", "found a NUL character at 2"),
        ("a\ud83d", r"\ud83d is half of a surrogate pair"),
    ],
)
def test_a_text_that_no_model_takes_is_one_line(text, message):
    with pytest.raises(UserError) as error:
        limits.check_text(text, "rows[3].text", 5)
    assert str(error.value).startswith(f"rows[3].text: {message}")
    assert "\n" not in str(error.value)


def test_characters_are_counted_and_not_bytes():
    # Five characters: 14 bytes, 6 units of UTF-16. Spaces count, too.
    text = " \u00e9\u6f22\U0001f600 "
    assert limits.check_text(text, "text", 5) is text
    with pytest.raises(UserError, match="at most 4 characters, found 5"):
        limits.check_text(text, "text", 4)


@pytest.mark.parametrize(
    "value, dtype, wanted",
    [
        ([[1, 2], [-3, 4]], "int32", [[1, 2], [-3, 4]]),
        ([2**31 - 1, -(2**31)], "int32", [2**31 - 1, -(2**31)]),
        ([2**40], "int64", [2**40]),
        ([1, 2.5], "float32", [1.0, 2.5]),
        (7, "float32", 7.0),
        ([], "int32", []),
        ([[], []], "float32", [[], []]),
    ],
)
def test_lists_become_arrays_of_the_type(value, dtype, wanted):
    found = limits.check_numbers(value, dtype, "x", 9)
    assert found.dtype == dtype and found.tolist() == wanted
    assert found.shape == np.shape(wanted)


@pytest.mark.parametrize(
    "value, dtype, message",
    [
        ([1, "2"], "float32", "wanted numbers, found str"),
        ([1, None], "float32", "wanted numbers, found NoneType"),
        ([True], "int32", "wanted numbers, found bool"),
        ([{"a": 1}], "float32", "wanted numbers, found dict"),
        ([1.0], "int32", "wanted numbers, found float"),
        ([[1, 2], [3]], "int32", "the rows differ in length"),
        ([1, [2]], "float32", "the rows differ in length"),
        ([2**31], "int32", "a number does not fit 32 bits"),
        ([-(2**31) - 1], "int32", "a number does not fit 32 bits"),
        ([2**62], "float32", "a number is too large"),
        ([-(10**400)], "float32", "a number is too large"),
        ([float("nan")], "float32", "a number is not finite in float32"),
        ([1e39], "float32", "a number is not finite in float32"),
        ([[1, 2], [3, 4], [5, 6]], "int32", "wanted at most 5 numbers, found"),
    ],
)
def test_other_values_are_one_line(value, dtype, message):
    with pytest.raises(UserError) as error:
        limits.check_numbers(value, dtype, "rows[1].x", 5)
    assert str(error.value).startswith(f"rows[1].x: {message}")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_outputs_that_json_cannot_say_are_one_line(value):
    values = np.ones((2, 3), np.float32)
    limits.check_output(values, "text 4")
    values[1, 2] = value
    with pytest.raises(UserError, match="output for text 4 is not finite: "):
        limits.check_output(values, "text 4")


def test_numbers_are_counted_before_they_are_copied():
    """A list that shares its parts is small, and its array is not."""
    value = [1] * 100
    for _ in range(3):
        value = [value] * 10
    with pytest.raises(UserError, match="at most 1000 numbers, found 100000"):
        limits.check_numbers(value, "int32", "x", 1000)
    deep = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(UserError, match="^x: "):
        limits.check_numbers(deep, "int32", "x", 1000)
