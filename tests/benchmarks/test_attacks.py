"""A few rounds of the server's attacks, around a model that costs nothing."""

import subprocess
import sys

import pytest

pytest.importorskip("fastapi")

from benchmarks.soak import attacks, hostile
from tests.conftest import ROOT

ROW = {"text": "0"}  # the model sleeps so long


class Toy:
    """`tests.serving.slow_server`, as `attacks.Server`."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.serving.slow_server", "10", "5"],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.port = int(self.process.stdout.readline())

    def good_row(self):
        return ROW


@pytest.mark.slow
def test_good_neighbours_are_answered_whatever_others_do():
    known = hostile.attacks(ROW)
    assert len(known) >= 26
    names = [
        "deep lists",
        "memory: many long ids",
        "slow headers",
        "leaving in a body",
        "answers never read",
        "a huge body, in chunks",
        "garbage",
    ]
    server = Toy()
    try:
        rows = attacks.run(server, 0.5, 2, names, say=lambda line: None)
        assert server.process.poll() is None
    finally:
        server.process.terminate()
        server.process.communicate(timeout=30)
    assert [row.name for row in rows] == ["quiet", *names, "all at once"]
    for row in rows:
        assert row.good > 0 and row.failed == 0, row
        assert row.control > 0 and row.server_cpu > 0, row
        # MiB; large requests are read by a process of their own.
        assert row.after < row.before + 300, row
