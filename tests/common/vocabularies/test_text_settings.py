"""Text settings: choices of flags, and other shapes of them."""

import pytest

from common.errors import UserError
from common.vocabularies import text_settings
from common.vocabularies.text_settings import (
    COMPOSED,
    ORIGINAL,
    TextChoice,
    TextSettings,
)


def test_flags_that_contradict_each_other():
    choose = text_settings.choose
    assert choose(keep_accents=True).rule == COMPOSED
    assert choose(keep_accents=False).rule == ORIGINAL
    assert choose(COMPOSED, keep_accents=True).rule == COMPOSED
    assert choose().rule is None
    with pytest.raises(UserError, match="--text_rule=original and --keep_acc"):
        choose(ORIGINAL, keep_accents=True)
    with pytest.raises(UserError, match="--text_rule must be one of"):
        TextChoice("none")


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {},
        {"rule": "composed"},
        TextSettings().as_dict() | {"rule": "other"},
        TextSettings().as_dict() | {"uncased": 1},
        TextSettings().as_dict() | {"version": 99},
    ],
)
def test_settings_of_another_shape_are_one_line(value):
    with pytest.raises(UserError, match="^x: wanted text settings"):
        TextSettings.from_dict(value, "x")
