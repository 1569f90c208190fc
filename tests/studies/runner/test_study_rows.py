"""A row of a study's file: what is refused before any job runs."""

import pytest

from common.errors import UserError
from studies.runner.study_rows import RowOptions


def test_the_key_is_the_first_word():
    assert RowOptions(" a b").key == "a"


@pytest.mark.parametrize(
    "entries, message",
    [
        ({"name": ""}, "`name` must begin with a word, found ''"),
        ({"name": " "}, "`name` must begin with a word, found ' '"),
        ({"name": 3}, "`name` must begin with a word, found 3"),
        ({"pretrain": 3}, "row 'a b': `pretrain` must be a table, found 3"),
        ({"records": "x"}, "`records` must be a table, found 'x'"),
        ({"tasks": 3}, "`tasks` must be a table, found 3"),
        ({"tasks": {"one": 3}}, "`tasks` must be a table of tables, found"),
        ({"paper": {"one": "x"}}, "`paper` must be a table of numbers, found"),
        ({"drop": "abc"}, "`drop` must be a list of texts, found 'abc'"),
        ({"without": (1,)}, "`without` must be a list of texts, found"),
        ({"pretrain": {"train_steps": "9"}}, "row 'a b': `train_steps` must"),
        ({"tasks": {"one": {"train_steps": True}}}, "whole number from 1 on"),
        ({"start": "here"}, "`start` must be one of weights, random"),
    ],
)
def test_entries_of_another_kind_are_named(entries, message):
    with pytest.raises(UserError, match=message):
        RowOptions(**{"name": "a b"} | entries)
