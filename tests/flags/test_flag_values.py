"""Options take the flags of their fields' names."""

import dataclasses

import pytest
from absl import flags

from common.errors import UserError
from flags import flag_values


@dataclasses.dataclass(frozen=True)
class Toy:
    size: int
    names: tuple[str, ...] = ()
    kept: str = "default"
    computed: int = 1

    def __post_init__(self):
        if self.size < 0:
            raise UserError(f"--size must be >= 0, found {self.size}")


@pytest.fixture
def parsed(monkeypatch):
    values = flags.FlagValues()
    flags.DEFINE_integer("size", 3, "Size.", flag_values=values)
    flags.DEFINE_list("names", [], "Names.", flag_values=values)
    flags.DEFINE_integer("computed", 5, "Another.", flag_values=values)
    monkeypatch.setattr(flag_values, "FLAGS", values)
    return lambda *argv: values(["command", *argv])


def test_flags_defaults_and_what_is_given(parsed):
    parsed("--size=7", "--names=a,b")
    assert flag_values.build(Toy, computed=2) == Toy(7, ("a", "b"), computed=2)
    assert flag_values.build(Toy).computed == 5


def test_the_options_check_themselves(parsed):
    parsed("--size=-1")
    with pytest.raises(UserError, match="--size must be >= 0, found -1"):
        flag_values.build(Toy)
