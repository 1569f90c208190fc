"""The end of a command that failed, with and without a signal."""

import pytest

from common.process import last_line


@pytest.mark.parametrize(
    "status, said, line",
    [
        (1, "a\nerror: b\n", "error: b"),
        (1, "", "no message"),
        (-9, "step 3\n", "SIGKILL (out of memory?), its last line: step 3"),
        (-15, " \n", "SIGTERM, its last line: no message"),
        (-40, "c", "signal 40, its last line: c"),
    ],
)
def test_the_signal_is_said_before_the_last_line(status, said, line):
    begin = "ended by " if status < 0 else ""
    assert last_line.of(status, said) == begin + line
