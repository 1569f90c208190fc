"""Two names for one rule: agreeing, contradicting, left out."""

import pytest

from common.errors import UserError
from common.vocabularies.text_settings import COMPOSED, ORIGINAL, TextChoice
from flags import text_flags
from tests.flags.fresh_flags import parsed


@pytest.mark.parametrize(
    "arguments, wanted",
    [
        ([], TextChoice()),
        (["--nouncased"], TextChoice(uncased=False)),
        (["--keep_accents"], TextChoice(COMPOSED)),
        (["--nokeep_accents", "--uncased"], TextChoice(ORIGINAL, True)),
        (["--text_rule=composed", "--keep_accents"], TextChoice(COMPOSED)),
    ],
)
def test_what_is_said_and_nothing_else(arguments, wanted):
    with parsed(text_flags.define, *arguments):
        assert text_flags.from_flags() == wanted


def test_two_rules_at_once_are_refused():
    with parsed(text_flags.define, "--text_rule=original", "--keep_accents"):
        with pytest.raises(UserError, match="contradict each other"):
            text_flags.from_flags()
