"""Control characters out of files do not reach a terminal."""

import io
import os
import pty
import subprocess
import sys

import pytest

from common.process import terminal
from tests.conftest import ROOT

NAME = "label\x1b]0;title\x07\x1b[2J\x9b1m é\t日本"
COMMAND = f"""
import sys
from flags import app
def main():
    print({NAME!r})
    print({NAME!r}, file=sys.stderr)
app.run(main)
"""


def shown(text):
    stream = io.StringIO()
    terminal.Terminal(stream).write(text)
    return stream.getvalue()


def test_letters_and_line_ends_stay():
    text = "a\tb\r\nc é 日本 \u0301\u3000\u00a0نمی\u200cخواهم"
    assert shown(text) == text
    assert shown("a\u202eb\u2028") == r"a\u202eb\u2028"
    assert shown(NAME) == r"label\x1b]0;title\x07\x1b[2J\x9b1m é" + "\t日本"


def test_help_that_nobody_reads_to_its_end_is_no_error():
    command = f"{sys.executable} -m serving.serve --helpfull | head -1"
    done = subprocess.run(
        command, shell=True, cwd=ROOT, capture_output=True, text=True
    )
    assert done.stdout.strip() and done.stderr == ""


@pytest.mark.parametrize("on_terminal", [True, False])
def test_a_command_prints_names_of_a_file(on_terminal):
    reader, writer = pty.openpty() if on_terminal else os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=writer,
        stderr=writer,
    )
    os.close(writer)
    output = b""
    while True:
        try:
            part = os.read(reader, 4096)
        except OSError:  # the other end of a terminal is closed
            break
        if not part:
            break
        output += part
    os.close(reader)
    assert process.wait() == 0, output
    text = output.decode()
    assert text.count("label") == 2 and "日本" in text
    assert ("\x1b" in text) != on_terminal
