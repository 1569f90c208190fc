"""Commands of the project as tests start them.

`run` is `subprocess.run` of Python, four seconds faster: the command is a fork
of a process that has loaded TensorFlow. What is about starting itself (imports,
environment of the libraries, signals) takes `subprocess`.
"""

import atexit
import functools
import json
import os
import subprocess
import sys
import tempfile

from tests.conftest import ROOT


@functools.cache
def _server() -> subprocess.Popen:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.helpers.command_server"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(process.stdin.close)
    return process


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
    arguments = list(map(str, command))
    with tempfile.TemporaryDirectory() as folder:
        request = {
            "arguments": arguments,
            "cwd": str(cwd),
            "env": dict(os.environ if env is None else env),
            "timeout": timeout,
        }
        for name in ("stdout", "stderr"):
            request[name] = os.path.join(folder, name)
            open(request[name], "w").close()
        server = _server()
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        status = json.loads(server.stdout.readline())
        texts = []
        for name in ("stdout", "stderr"):
            with open(request[name], encoding="utf-8", errors="replace") as f:
                texts.append(f.read())
    if status is None:
        raise subprocess.TimeoutExpired(arguments, timeout, *texts)
    return subprocess.CompletedProcess(arguments, status, *texts)
