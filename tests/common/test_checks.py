"""Ranges and choices: what passes, and the one line that a refusal is."""

import dataclasses
import json
import os

import numpy as np
import pytest

from common import checks
from common.errors import UserError


@dataclasses.dataclass(frozen=True)
class _Values:
    size: object
    rate: object = 0.5
    memory: object = None
    kind: object = "word"
    names: tuple = ()


def test_a_flag_that_a_choice_ignores_is_one_line():
    how = ("depth", "ranker", ("bm25", "knrm"))
    checks.follows(False, *how, "cosine")
    checks.follows(7, *how, "knrm")
    for found, shown in (("cosine", "cosine"), ("", "none"), (None, "none")):
        with pytest.raises(UserError) as e:
            checks.follows(7, *how, found)
        assert str(e.value) == (
            f"--depth is of --ranker=bm25 or knrm, found {shown}: leave it out"
        )


@pytest.mark.parametrize(
    "interval, inside, outside",
    [
        ("> 0", (1e-9, 3, 1e300, 10**400), (0, -1, float("nan"))),
        (">= 2", (2, 7.5, np.int64(2)), (1, 1.999, float("nan"))),
        ("[0, 1)", (0, 0.999), (1, -1e-9, float("nan"))),
        ("(0, 1]", (1, 1e-9), (0, 1.001)),
        ("[8, 16]", (8, 16), (7, 17)),
    ],
)
def test_an_interval_has_the_ends_that_its_brackets_say(
    interval, inside, outside
):
    for value in inside:
        checks.within(_Values(value), interval, "size")
    shown = interval if interval[0] == ">" else f"in {interval}"
    for value in outside:
        with pytest.raises(UserError) as error:
            checks.within(_Values(value), interval, "size")
        assert str(error.value) == (
            f"--size must be {shown}, received {value!r}"
        )


@pytest.mark.parametrize("interval", ["> 0", ">= 0"])
@pytest.mark.parametrize("value", [float("inf"), np.float32("inf")])
def test_an_open_end_admits_no_infinite_number(interval, value):
    with pytest.raises(UserError) as error:
        checks.within(_Values(value), interval, "size")
    assert str(error.value) == (
        f"--size must be {interval} and finite, received {value!r}"
    )


@pytest.mark.parametrize("value", ["3", True, None, [3]])
def test_what_is_no_number_is_refused(value):
    with pytest.raises(UserError, match="`size` must be a number, received"):
        checks.within(_Values(value), "> 0", "size", form=checks.FIELD)


def test_an_output_has_a_plain_name_of_a_file():
    checks.plain_name("./-")
    with pytest.raises(UserError, match="--output_file=-: wanted the name"):
        checks.plain_name("-")
    with pytest.raises(UserError, match="--output is written plain: .* .gz"):
        checks.plain_name("A.GZ", "output")


def test_whole_numbers():
    checks.within(_Values(3), ">= 1", "size", whole=True)
    with pytest.raises(UserError, match="--size must be a whole number"):
        checks.within(_Values(3.0), ">= 1", "size", whole=True)


def test_none_passes_only_where_it_is_the_default():
    checks.within(_Values(3), ">= 1", "memory")
    with pytest.raises(UserError, match="--memory must be >= 1, received 0"):
        checks.within(_Values(3, memory=0), ">= 1", "memory")
    with pytest.raises(UserError, match="--rate must be a number"):
        checks.within(_Values(3, rate=None), ">= 1", "rate")


def test_choices_and_bools():
    checks.one_of(_Values(1), kind=("word", "char"))
    with pytest.raises(UserError) as error:
        checks.one_of(_Values(1, kind="x"), kind=("word", "char"))
    assert str(error.value) == "--kind must be one of word, char, received 'x'"
    with pytest.raises(UserError, match='--kind must be one of "", word,'):
        checks.one_of(_Values(1, kind="x"), kind=("", "word"))
    checks.true_or_false(_Values(True), "size")
    with pytest.raises(UserError, match="`size` must be true or false"):
        checks.true_or_false(_Values(1), "size")


def test_lists_of_the_command_line():
    checks.distinct(_Values(1, names=("a", "b")), "names", "a class")
    with pytest.raises(UserError, match="--names names a class twice: a, a"):
        checks.distinct(_Values(1, names=("a", "a")), "names", "a class")
    checks.distinct(_Values(1, names=("a", "a/")), "names", "a class")
    for other in ("a/", "./a", os.path.abspath("a")):  # counted twice
        with pytest.raises(UserError, match="--names names a folder twice: a"):
            checks.distinct_folders(_Values(1, names=("a", other)), "names")
    checks.weights(_Values(1), "names", 2, "file")
    checks.weights(_Values(1, names=(1.0, 0.5)), "names", 2, "file")
    with pytest.raises(UserError, match=r"one per file \(2\), received 1"):
        checks.weights(_Values(1, names=(1.0,)), "names", 2, "file")
    for wrong in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(UserError, match="--names must be positive"):
            checks.weights(_Values(1, names=(1.0, wrong)), "names", 2, "file")


def test_a_key_that_is_given_twice_is_named():
    # Objects of one list may have the same keys.
    text = '{"b": 1, "a": [{"b": 2}, {"b": {"b": 3}}, {}]}'
    assert checks.parse_json(text) == json.loads(text)
    text = '[{"b": 1, "a": 3, "c": 4, "a": 3}]'
    with pytest.raises(ValueError, match="the key 'a' twice"):
        checks.parse_json(text)


@pytest.mark.parametrize("text", ["1_000", "\u0663", "1e", "", "0x10"])
@pytest.mark.parametrize("kind", [float, int])
def test_what_python_alone_takes_for_a_number_is_none(text, kind):
    with pytest.raises(ValueError):
        checks.as_number(text, kind)


def test_numbers_of_files():
    assert checks.as_number("-1.5e2") == -150.0
    assert checks.as_number(" +7 ", int) == 7
