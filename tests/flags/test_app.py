"""How commands start: help, strict flags, one-line errors."""

import subprocess
import sys

import pytest

COMMAND = """
from absl import flags as absl_flags
from common.errors import UserError
from flags import app, demo_flags

def main():
    if absl_flags.FLAGS.vocab_size == 17:
        raise UserError("wanted one thing, found another; do this")
    print("ran")

if __name__ == "__main__":
    demo_flags.define_sentencepiece()
    app.run(main)
"""
GIVEN = ("--input_glob=a", "--model_prefix=b")


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-c", COMMAND, *arguments],
        capture_output=True,
        text=True,
    )


def test_a_good_command_runs():
    done = run(*GIVEN)
    assert (done.returncode, done.stdout) == (0, "ran\n")


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((*GIVEN, "--vocab_sise=3"), "Did you mean: vocab_size"),
        ((*GIVEN, "--vocab_size=x"), "vocab_size=x"),
        ((*GIVEN, "--model_type=word"), "one of <unigram|bpe|char>"),
        (GIVEN[:1], "--model_prefix"),
        ((*GIVEN, "surplus"), "unexpected argument 'surplus'"),
        ((*GIVEN, "--vocab_size=17"), "error: wanted one thing, found"),
    ],
)
def test_mistakes_are_one_line_and_status_1(arguments, message):
    done = run(*arguments)
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_help_lists_the_flags_of_the_command():
    done = run("--help")
    for name in ("--input_glob", "--[no]uncased", "--vocab_size"):
        assert name in done.stdout
    assert "(default: '32000')" in done.stdout
