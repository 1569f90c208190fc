"""Commands of the project as tests start them.

`run` is `subprocess.run` of Python, four seconds faster: the command is a fork
of a process that has loaded TensorFlow. What is about starting itself (imports,
environment of the libraries) takes `sys.executable`.
"""

import atexit
import functools
import os
import pathlib
import subprocess
import sys

from tests.conftest import ROOT


@functools.cache
def environment() -> pathlib.Path:
    """The folder of `tests.helpers.forks.environment`.

    scripts/test.sh starts one for all test processes: XLNET_FORKS.
    """
    if folder := os.environ.get("XLNET_FORKS"):
        return pathlib.Path(folder)
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.helpers.forks.environment"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(process.communicate)
    return pathlib.Path(process.stdout.readline().strip())


def python() -> str:
    """Takes the place of `sys.executable` in a command."""
    return str(environment() / "bin" / "python")


def run(
    *command, cwd=ROOT, env: dict | None = None, timeout: float = 600
) -> subprocess.CompletedProcess:
    """Runs `python COMMAND`; standard input is empty.

    Args:
      *command: "-m" and a module, "-c" and code, or a script, and arguments.
      cwd: where.
      env: the whole environment; None = that of this process.
      timeout: seconds.

    Returns:
      With `stdout` and `stderr` as text.

    Raises:
      subprocess.TimeoutExpired: it has been ended.
    """
    return subprocess.run(
        [python(), *map(str, command)],
        cwd=cwd,
        env=os.environ if env is None else env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=timeout,
    )
