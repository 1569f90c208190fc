"""Words of any script, and stop words."""

import pytest

from common.errors import UserError
from data.finetuning.ranking import words
from tests.data.finetuning.ranking_files import put


def test_words_of_scripts_with_and_without_spaces(tmp_path):
    assert words.split("the state-of-the-art x 3d") == [
        *["the", "state", "of", "the", "art", "3d"]
    ]
    assert words.split("机器学习 ok 好") == ["机器", "器学", "学习", "ok", "好"]
    assert words.split("مَرحبا हिन्दी") == ["مَرحبا", "हिन्दी"]
    path = put(tmp_path, "stop", "The\n\nof\n")
    assert words.stop_words(path) == ("the", "of")
    assert words.stop_words("") == ()
    assert "the" in words.stop_words("en")
    with pytest.raises(UserError, match="stop:1: wanted a stop word without"):
        words.stop_words(put(tmp_path, "stop", "of the\n"))
    with pytest.raises(UserError, match="--stop_words=.* holds no word"):
        words.stop_words(put(tmp_path, "stop", "\n"))
