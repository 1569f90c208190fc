"""Another process that holds an output."""

import contextlib
import subprocess
import sys

from tests.conftest import ROOT

_HOLD = """
import sys
from common import locks
with locks.held(sys.argv[1], is_folder=sys.argv[2] == "folder"):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextlib.contextmanager
def another_process_holds(path, is_folder=True):
    """Yields the process; it lets go when the block ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(path)]
        + ["folder" if is_folder else "file"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout.readline() == "held\n"
        yield process
    finally:
        process.communicate()
