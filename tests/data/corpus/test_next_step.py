"""The command that follows a text learns a vocabulary from it."""

import shlex

import pytest

from data.corpus import next_step


@pytest.mark.parametrize(
    "arguments, said",
    [
        (("my texts/a.txt",), ["my texts/a.txt", "my texts/spiece"]),
        (("a.txt",), ["a.txt", "spiece"]),
        (
            ("a.jsonl", "body", 8000),
            ["a.jsonl", "spiece", "--vocab_size=8000", "--text_field=body"],
        ),
    ],
)
def test_the_vocabulary_lies_beside_the_text(arguments, said):
    text, prefix, *more = said
    assert shlex.split(next_step.vocabulary(*arguments)) == [
        *("next:", "python", "-m", "data.train_sentencepiece"),
        *(f"--input_glob={text}", f"--model_prefix={prefix}", *more),
    ]
