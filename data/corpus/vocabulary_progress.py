"""Lines about a vocabulary's training, made of SentencePiece's own log.

The trainer writes its log to the process' standard error while it holds the
interpreter. So another process reads it: of hundreds of lines it shows the
sentences that were read and the pieces that are left.
"""

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from typing import TextIO

_READ = re.compile(r"Loaded all (\d+) sentences")
_SEEDS = re.compile(r"Initialized (\d+) seed pieces")
_ROUND = re.compile(r"EM sub_iter=1 size=(\d+) obj=([\d.]+)")
_ADDED = re.compile(r"Added: .*size=(\d+)")
_BAD = re.compile(r"[EF]\d{4} ")  # an error, which is shown as it is
# Ctrl-C of a terminal reaches it, too: the end of the log ends it.
_PROGRAM = (
    "import runpy, signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); "
    "runpy.run_path(sys.argv[1])['main'](sys.argv[2])"
)
_SHARES = 10  # lines while pieces are added one by one


@contextlib.contextmanager
def shown(wanted: int) -> Iterator[TextIO]:
    """While it is open, the trainer's log becomes lines on standard error.

    Yields standard error as it was, for lines of our own.
    """
    sys.stderr.flush()
    before = os.dup(2)
    # Without the project's imports it is there at once.
    command = [sys.executable, "-S", "-E", "-c", _PROGRAM]
    command += [__file__, str(wanted)]
    reader = subprocess.Popen(command, stdin=subprocess.PIPE)
    os.dup2(reader.stdin.fileno(), 2)
    try:
        with open(os.dup(before), "w", encoding="utf-8") as stream:
            yield stream
    finally:
        os.dup2(before, 2)
        os.close(before)
        reader.stdin.close()
        reader.wait()


def lines(log: Iterable[str], wanted: int) -> Iterator[str]:
    """What is worth showing of the log's lines."""
    share = 0
    for line in log:
        if match := _READ.search(line):
            yield f"vocabulary: {int(match[1]):,} sentences"
        elif match := _SEEDS.search(line):
            yield f"vocabulary: {int(match[1]):,} pieces to choose from"
        elif match := _ROUND.search(line):
            yield (
                f"vocabulary: {int(match[1]):,} pieces left, {wanted:,} "
                f"wanted, loss {float(match[2]):.3f}"
            )
        elif match := _ADDED.search(line):
            if int(match[1]) * _SHARES // wanted > share:
                share = int(match[1]) * _SHARES // wanted
                yield f"vocabulary: {int(match[1]):,} pieces of {wanted:,}"
        elif _BAD.match(line):
            yield line.rstrip("\n")


def main(wanted: str) -> None:
    """Shows what comes on standard input; runs in the reading process."""
    for line in lines(sys.stdin, int(wanted)):
        print(line, file=sys.stderr, flush=True)
