"""How commands start: help, strict flags, one-line errors."""

import signal
import subprocess
import sys

import pytest
from absl import flags

from common.errors import UserError
from flags import app

COMMAND = """
import signal
from absl import flags as absl_flags
from common.errors import Stopped, UserError
from data.corpus.options import SentencePieceOptions
from flags import app, flag_values, text_flags

def main():
    if absl_flags.FLAGS.vocab_size == 17:
        raise UserError("wanted one thing, found another; do this")
    if absl_flags.FLAGS.vocab_size == 18:
        raise ZeroDivisionError("a mistake")
    if absl_flags.FLAGS.vocab_size == 19:
        # A test run in the background of a shell has it ignored.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.raise_signal(signal.SIGINT)
    if absl_flags.FLAGS.vocab_size == 20:
        open("/nowhere/a", "w")
    if absl_flags.FLAGS.vocab_size == 21:
        import logging
        for text in ("9 calls triggered tf.function retracing.", "kept"):
            logging.getLogger("tensorflow").warning(text)
    if absl_flags.FLAGS.vocab_size in (22, 23):
        print("saved")
        at_22 = absl_flags.FLAGS.vocab_size == 22
        raise Stopped("SIGTERM" if at_22 else "the time is over")
    if absl_flags.FLAGS.vocab_size in (24, 25):
        at_24 = absl_flags.FLAGS.vocab_size == 24
        try:
            signal.raise_signal(signal.SIGTERM if at_24 else signal.SIGHUP)
        finally:
            print("removed")
    print("ran")

if __name__ == "__main__":
    flag_values.define(SentencePieceOptions)
    text_flags.define()
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


@pytest.mark.parametrize("size, status", [(22, 143), (23, 75)])
def test_a_training_that_is_stopped_is_no_success(size, status):
    """A script does not go on with weights that are half trained."""
    done = run(*GIVEN, f"--vocab_size={size}")
    assert (done.returncode, done.stdout) == (status, "saved\n")
    assert not done.stderr


@pytest.mark.parametrize("size, status", [(24, 143), (25, 129)])
def test_a_signal_ends_a_command_as_ctrl_c_does(size, status):
    """Temporary files and folders stayed: the process ended where it stood."""
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, *GIVEN, f"--vocab_size={size}"],
        capture_output=True,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    )
    assert (done.returncode, done.stdout) == (status, "removed\n")
    assert done.stderr.startswith("error: interrupted")
    assert done.stderr.count("\n") == 1


def test_traces_of_new_lengths_are_no_warning():
    (line,) = run(*GIVEN, "--vocab_size=21").stderr.splitlines()
    assert line.endswith("kept")
    shown = run(*GIVEN, "--vocab_size=21", "--verbosity=0").stderr
    assert "retracing" in shown


@pytest.mark.long
@pytest.mark.parametrize(
    "arguments, message",
    [
        ((*GIVEN, "--vocab_sise=3"), "Did you mean: vocab_size"),
        ((*GIVEN, "--vocab_size=x"), "vocab_size=x"),
        ((*GIVEN, "--model_type=word"), "one of <unigram|bpe|char>"),
        (GIVEN[:1], "wanted --model_prefix: give"),
        ((), "wanted --input_glob, --model_prefix: give"),
        ((*GIVEN, "surplus"), "unexpected argument 'surplus'"),
        ((*GIVEN, "--vocab_size=17"), "error: wanted one thing, found"),
    ],
)
def test_mistakes_are_one_line_and_status_1(arguments, message):
    done = run(*arguments)
    assert done.returncode == 1
    assert message in done.stderr
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1 and done.stdout == ""


def test_a_file_of_flags_that_is_not_there_is_one_error():
    done = run("--flagfile=/nowhere/a")
    assert done.stderr.startswith("error: Unable to open flagfile: ")


def test_help_lists_the_flags_of_the_command():
    done = run("--help")
    for name in ("--input_glob", "--[no]uncased", "--vocab_size"):
        assert name in done.stdout
    assert "(default: '32000')" in done.stdout
    assert done.returncode == 0
    assert done.stdout.count("--input_glob:") == 1


def test_names_of_other_programs_are_told():
    for argument, line in (
        ("--lr=3", "--lr is a flag of Hugging Face; here: --learning_rate"),
        ("--nodo_prepro", "--do_prepro is a flag of the original; here: "),
    ):
        done = run(*GIVEN, argument)
        assert done.returncode == 1
        assert done.stderr.startswith(f"error: {line}")
        assert done.stderr.count("\n") == 1


def test_a_mistake_of_the_program_keeps_its_trace():
    done = run(*GIVEN, "--vocab_size=18")
    assert done.returncode == 1
    assert "Traceback" in done.stderr and "a mistake" in done.stderr


def test_faults_of_the_surroundings_are_one_line():
    done = run(*GIVEN, "--vocab_size=20")
    assert done.returncode == 1
    wanted = "error: /nowhere/a: no such file or folder; check the path\n"
    assert done.stderr == wanted
    done = run(*GIVEN, "--vocab_size=19")
    assert done.returncode == 130
    assert done.stderr.startswith("error: interrupted")
    assert done.stderr.count("\n") == 1


def test_a_home_that_the_shell_left_is_refused():
    """It would be a folder called ~ where the command runs."""
    done = run("--input_glob=a,~/b", "--model_prefix=b")
    assert done.returncode == 1 and not done.stdout
    assert done.stderr == (
        "error: --input_glob: wanted a path, found ~/b: the shell does not "
        'expand ~ behind =, give "$HOME"/b\n'
    )
    assert run("--input_glob=~", "--model_prefix=b").returncode == 1
    assert run("--input_glob=./~/b", "--model_prefix=b~/c").returncode == 0


def test_an_empty_value_of_a_flag_that_must_be_given_is_refused(monkeypatch):
    """`--model_prefix=` wrote `.model` where the command ran."""
    values = flags.FlagValues()
    flags.DEFINE_string("prefix", None, "", required=True, flag_values=values)
    flags.DEFINE_string("text", None, "", required=True, flag_values=values)
    flags.DEFINE_string("more", "", "", flag_values=values)
    flags.DEFINE_string("other", None, "", flag_values=values)
    monkeypatch.setattr(app.flags, "FLAGS", values)
    values(["command", "--prefix=a", "--text=", "--more=", "--other="])
    app._check_empty()
    values(["command", "--prefix="])
    with pytest.raises(UserError) as info:
        app._check_empty()
    assert str(info.value) == (
        "--prefix: wanted a value, found an empty text; a variable of the shell "
        "may not be set"
    )


def test_a_text_may_begin_like_a_path(monkeypatch):
    values = flags.FlagValues()
    flags.DEFINE_multi_string("text", [], "", flag_values=values)
    values(["command", "--text=~/a is a path"])
    monkeypatch.setattr(app.flags, "FLAGS", values)
    app._check_home()
    flags.DEFINE_list("ensemble", [], "", flag_values=values)
    values(["command", "--ensemble=a,~/b"])
    with pytest.raises(UserError, match="--ensemble: wanted a path"):
        app._check_home()


def test_ctrl_c_while_the_libraries_are_loaded_is_one_line():
    source = "from flags import app\nraise KeyboardInterrupt"
    done = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True
    )
    assert done.returncode != 0
    assert done.stderr.startswith("error: interrupted")
    assert done.stderr.count("\n") == 1
