"""What every configuration offers: counts, architecture, files by name."""

import dataclasses
from typing import Any, ClassVar

import pytest

from common.errors import UserError
from modeling.encoders.contract import Capabilities, EncoderConfig


@dataclasses.dataclass(frozen=True)
class Toy(EncoderConfig):
    changeable: ClassVar[tuple[str, ...]] = ("dropout", "extra")

    vocab_size: int
    d_model: int
    mem_len: int | None = None
    heads: int | None = 3
    dropout: float = 0.1
    extra: dict[str, Any] = dataclasses.field(default_factory=dict)


def test_whole_numbers_but_for_those_that_may_be_0():
    assert Toy.counts() == ["vocab_size", "d_model", "heads"]


def test_weights_and_memory_depend_on_the_architecture_alone():
    config = Toy(9, 4)
    assert config.replace(dropout=0.5).architecture() == config.architecture()
    changed = config.replace(mem_len=5)
    assert changed.architecture() != config.architecture()
    assert config.mem_len is None


def test_sizes_in_order_are_completed_by_name():
    assert Toy._of_sizes({"dropout": 0.0}, 9, 4) == Toy(9, 4, dropout=0.0)
    assert Toy._of_sizes({"d_model": 6}, 9, 4) == Toy(9, 6)


def test_unknown_keys_of_a_file_are_kept():
    value = {"vocab_size": 9, "d_model": 4, "a": 1, "extra": {"b": 2}}
    assert Toy._of_fields(dict(value), {}).extra == {"a": 1, "b": 2}
    with pytest.raises(UserError, match=r"lacks \['vocab_size', 'width'\]"):
        Toy._of_fields({"heads": 2}, {"d_model": "width"})
    with pytest.raises(UserError, match="`extra` must be an object"):
        Toy._of_fields(value | {"extra": 3}, {})


@pytest.mark.parametrize(
    "layout, where",
    [("cls_first", "first"), ("cls_last", "last"), ("stream", "last")],
)
def test_where_cls_is_among_the_real_tokens(layout, where):
    able = Capabilities(False, False, 1, layout)
    assert able.summary_type == where and not able.packed_rows
