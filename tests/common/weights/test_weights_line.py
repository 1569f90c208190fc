"""The line that says which weights are read."""

import dataclasses

import pytest

from common.errors import UserError
from common.settings import check, settings_of
from common.weights import weights_line


@dataclasses.dataclass(frozen=True)
class Options:
    which: str = weights_line.choice_setting()
    part: str = weights_line.part_setting()

    def __post_init__(self):
        check(self)


def test_why_a_checkpoint_was_taken_stands_behind_it():
    line = weights_line.weights_line
    assert line("/m/model.ckpt-3") == "weights      /m/model.ckpt-3"
    assert line("/m/best", "f1 0.9") == "weights      /m/best (f1 0.9)"


def test_the_best_the_last_or_whichever_a_run_ended_with():
    assert Options().which == "auto" and Options().part == ""
    assert settings_of(Options)["part"].flag == "head"
    with pytest.raises(UserError, match="--which must be one of auto, best, l"):
        Options("newest")
    with pytest.raises(UserError, match='--head must be one of "", encoder'):
        Options(part="pooler")
