"""The line of what to run next is read by a shell."""

import shlex

from common.process import next_command


def test_the_line_is_a_command_of_a_shell():
    words = ("-m", "data.inspect", "--data_dir=my 'records'")
    label, *said = shlex.split(next_command.line(*words))
    assert (label, said) == ("next:", ["python", *words])
