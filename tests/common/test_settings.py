"""Bounds and choices of a dataclass's settings, named by their flags."""

import dataclasses

import pytest

from common.errors import UserError
from common.settings import REQUIRED, check, setting, settings_of


@dataclasses.dataclass(frozen=True)
class Toy:
    size: int = setting(REQUIRED, "Size.", bounds=">= 1")
    rate: float = setting(0.5, "Rate.", bounds="[0, 1)", flag="drop_rate")
    kind: str = setting("a", "Kind.", choices=iter("ab"))
    optional: int | None = setting(3, "Its type takes None.", bounds="> 2")
    unset: str = setting(None, "Its default is None.", choices=("x",))
    free: float = setting(0.0, "Any number.")
    note: str = "no setting"

    def __post_init__(self):
        check(self)


def test_settings_are_the_fields_that_have_one():
    found = settings_of(Toy)
    assert list(found) == ["size", "rate", "kind", "optional", "unset", "free"]
    assert found["kind"].choices == ("a", "b")
    assert settings_of(Toy(2)) == found
    with pytest.raises(TypeError, match="size"):
        Toy()


@pytest.mark.parametrize(
    "values, message",
    [
        ({"size": 0}, "--size must be >= 1, received 0"),
        ({"size": None}, "--size"),
        ({"rate": 1.0}, "--drop_rate must be in"),
        ({"kind": "c"}, "--kind must be one of a, b, received 'c'"),
        ({"optional": 2}, "--optional must be > 2"),
        ({"unset": "y"}, "--unset must be one of x"),
        ({"free": float("nan")}, "--free must be a number, received nan"),
        ({"free": -1e308}, r"--free must be in \[-1e15, 1e15\]"),
        ({"size": 10**400}, r"--size must be in \[-1e15, 1e15\]"),
    ],
)
def test_a_value_out_of_bounds_names_its_flag(values, message):
    with pytest.raises(UserError, match=message):
        Toy(**({"size": 1} | values))


def test_none_passes_where_type_or_default_allows_it():
    assert Toy(1, optional=None).optional is None
    assert Toy(1).unset is None


def test_a_number_without_bounds_may_be_infinite():
    assert Toy(1, free=-float("inf")).free < 0
