"""Sentences of any script."""

import pytest

from data.corpus.sentences import sentences

SENTENCES = {
    "zh": ("我来了。你呢？“好！”他说。完", ["我来了。", "你呢？", "“好！”", "他说。", "完"]),
    "ja": (
        "雨だ。「そうだ。」と言った。『本。』終わり！？次",
        ["雨だ。", "「そうだ。」と言った。", "『本。』", "終わり！？", "次"],
    ),
    "hi": ("वह आया। वह गया। क्या?", ["वह आया।", "वह गया।", "क्या?"]),
    "ar": ("هل جاء؟ نعم. ذهب", ["هل جاء؟", "نعم.", "ذهب"]),
    "ko": ("비가 온다. 정말? 응.", ["비가 온다.", "정말?", "응."]),
    "en": ("It cost 3.5 e.g. here. He left.", ["It cost 3.5 e.g. here.", "He left."]),
}  # fmt: skip


@pytest.mark.parametrize("language", SENTENCES)
def test_sentences_of_other_scripts(language):
    text, expected = SENTENCES[language]
    assert sentences(text) == expected
