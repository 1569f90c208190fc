"""Flags are the settings of a dataclass, and its options are made from them."""

import dataclasses

import pytest
from absl import flags

from common.errors import UserError
from common.settings import REQUIRED, check, setting
from flags import flag_values


@dataclasses.dataclass(frozen=True)
class Toy:
    size: int = setting(REQUIRED, "Size.", bounds=">= 0")
    names: tuple[str, ...] = setting((), "Names.", choices="abc")
    rates: tuple[float, ...] = setting((0.5,), "Rates.")
    places: tuple[int, ...] = setting((), "Places.")
    text: tuple[str, ...] = setting((), "Texts.", repeated=True)
    kind: str | None = setting(None, "Kind.", choices=("x", "y"))
    workers: int = setting(1, "Workers.", flag="num_proc")
    fast: bool = setting(True, "Fast.")
    kept: str = "no setting"

    def __post_init__(self):
        check(self)


@pytest.fixture
def parse(monkeypatch):
    """Defines flags of `Toy` and parses a command line."""
    values = flags.FlagValues()
    defined = {
        kind: lambda *a, make=make, **k: make(*a, flag_values=values, **k)
        for kind, make in flag_values._SCALARS.items()
    }
    monkeypatch.setattr(flag_values, "_SCALARS", defined)
    for name in ("DEFINE_list", "DEFINE_enum", "DEFINE_multi_string"):
        make = getattr(flags, name)
        monkeypatch.setattr(
            flags,
            name,
            lambda *a, make=make, **k: make(*a, flag_values=values, **k),
        )
    monkeypatch.setattr(flag_values, "FLAGS", values)

    def run(*argv, **how):
        flag_values.define(Toy, **how)
        values(["command", *argv])
        return values

    return run


def test_every_type_comes_back(parse):
    parse(
        "--size=7",
        "--names=a,b",
        "--rates=1,2.5",
        "--places=3,-1",
        "--text=one, two",
        "--text=three",
        "--kind=y",
        "--num_proc=4",
        "--nofast",
    )
    wanted = Toy(
        7,
        ("a", "b"),
        (1.0, 2.5),
        (3, -1),
        ("one, two", "three"),
        "y",
        4,
        False,
    )
    assert flag_values.build(Toy) == wanted
    assert flag_values.build(Toy, size=2).size == 2


def test_defaults_are_the_fields(parse):
    parse("--size=0")
    assert flag_values.build(Toy) == Toy(0)


def test_a_command_may_have_other_defaults_and_fewer_flags(parse):
    values = parse(size=5, num_proc=0, without=("places", "text"))
    assert flag_values.build(Toy) == Toy(5, workers=0)
    assert "places" not in values and "text" not in values


def test_a_required_field_is_a_required_flag(parse):
    with pytest.raises(flags.IllegalFlagValueError, match="size"):
        parse()


@pytest.mark.parametrize(
    "argument, message",
    [
        ("--size=-1", "--size must be >= 0, received -1"),
        ("--names=a,d", "--names must be one of a, b, c, received 'd'"),
        ("--rates=1,x", "--rates must be numbers, received '1,x'"),
        ("--places=1.5", "--places must be whole numbers"),
    ],
)
def test_a_wrong_value_names_its_flag(parse, argument, message):
    parse("--size=1", argument)
    with pytest.raises(UserError, match=message):
        flag_values.build(Toy)


def test_a_name_that_is_no_setting_is_a_mistake_of_the_program(parse):
    with pytest.raises(ValueError, match="kept"):
        parse("--size=1", without=("kept",))


def test_a_flag_that_a_choice_ignores_is_refused(parse):
    followers = {("x",): ("absent", "rates"), ("x", "y"): ("places",)}
    parse("--size=1", "--rates=1", "--places=2")
    flag_values.check_followed("kind", "x", followers)
    with pytest.raises(UserError, match="^--rates is of --kind=x, found y: l"):
        flag_values.check_followed("kind", "y", followers)
    with pytest.raises(UserError, match="--places is of --kind=x or y, found"):
        flag_values.check_followed("kind", "z", {("x", "y"): ("places",)})
    flag_values.check_followed("kind", "y", {("x",): ("text",)})  # a default
