"""Runs tests in forks of a process that has imported TensorFlow once.

Started by `tools.mutants` in a copy of the repository, one request and
one answer per line of JSON:

    {"args": [...], "timeout": 300, "log": "/path"}
    {"status": 1, "failed": ["tests/...::name"], "seconds": 3.1}

`status` is pytest's; -1 = the time ran out, other negative numbers are minus
the signal that ended the process. No operation runs before a fork: TensorFlow
makes its threads with the first one. `--assert=plain` is for what was imported
before pytest could rewrite it.
"""

import contextlib
import gc
import importlib
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Iterable

TIMED_OUT = -1
# What the tests import beside the repository's own modules, where it is there:
# some are of optional requirements.
PRELOADED = (
    "numpy",
    "tensorflow",
    "tf_keras",
    "orbit",
    "official.common.distribute_utils",
    "sentencepiece",
    "sklearn.metrics",
    "scipy.stats",
    "safetensors.numpy",
)
_OF_TESTS = ("pytest", "anyio.pytest_plugin", "hypothesis.strategies")


class Recorder:
    """A pytest plugin that remembers what failed."""

    def __init__(self):
        self.failed: list[str] = []

    def pytest_configure(self):
        """Smaller examples of a failure tell nothing more here."""
        from hypothesis import Phase, settings

        phases = [Phase.explicit, Phase.reuse, Phase.generate]
        settings.register_profile("mutants", phases=phases)
        settings.load_profile("mutants")

    def pytest_runtest_logreport(self, report):
        """A test, or its fixtures."""
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_collectreport(self, report):
        """A file that cannot be imported."""
        if report.failed:
            self.failed.append(report.nodeid)


def run_tests(request: dict) -> dict:
    """Forks, runs the tests, waits."""
    begin = time.monotonic()
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        _child(request, writer)
    os.close(writer)
    status = _wait(child, begin + request["timeout"])
    with os.fdopen(reader) as f:
        failed = json.loads(f.read() or "[]")
    seconds = time.monotonic() - begin
    return {"status": status, "failed": failed, "seconds": seconds}


def _child(request: dict, writer: int) -> None:
    """Never returns."""
    os.setsid()
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    for stream in (1, 2):
        os.dup2(log, stream)
    status = 3
    try:
        import pytest

        recorder = Recorder()
        status = int(pytest.main(request["args"], plugins=[recorder]))
        sys.stdout.flush()
        os.write(writer, json.dumps(recorder.failed).encode())
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(status)


def _wait(child: int, deadline: float) -> int:
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            _end_group(child)  # what its tests started
            return code
        if time.monotonic() > deadline:
            _end_group(child)
            os.waitpid(child, 0)
            return TIMED_OUT
        time.sleep(0.02)


def _end_group(child: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)


def preload(names: Iterable[str]) -> None:
    """Imports what is installed: every fork has it then."""
    for name in names:
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(name)


def main() -> None:
    """Answers until its input ends."""
    sys.path[0] = os.getcwd()
    sys.dont_write_bytecode = True  # a planted source is not kept compiled
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    preload((*_OF_TESTS, *PRELOADED))
    gc.collect()
    gc.freeze()  # every fork would go through all of it several times
    for line in sys.stdin:
        answers.write(json.dumps(run_tests(json.loads(line))) + "\n")
        answers.flush()
