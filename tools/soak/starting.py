"""Commands as processes, fresh or forked from one that has loaded TensorFlow.

Most of a small command's time is the import of TensorFlow, and a kill that hits
it shows little. After `preload` commands are forks of this process; no
operation may have run in it (`in_fork` is for those).
"""

import contextlib
import json
import os
import runpy
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable

from common import files
from studies.runner import processes

ROOT = os.path.dirname(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
)
_POLL_SECONDS = 0.01
_ENVIRONMENT = {
    "CUDA_VISIBLE_DEVICES": "",
    "GRPC_VERBOSITY": "NONE",
}
_forking = False


def preload() -> None:
    """From now on commands are forked."""
    global _forking
    os.environ |= _ENVIRONMENT
    from tools.faults import server

    server.preload()
    _forking = True


class Forked:
    """A command in a fork; what is used here of `subprocess.Popen`."""

    def __init__(self, run: Callable[[], None]):
        sys.stdout.flush()
        sys.stderr.flush()
        self.returncode: int | None = None
        self.pid = os.fork()
        if not self.pid:
            end_with(run)

    def poll(self) -> int | None:
        """The exit status, once it has ended; minus a signal's number."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Waits; `subprocess.TimeoutExpired` after `timeout` seconds."""
        end = time.monotonic() + (timeout or float("inf"))
        while self.poll() is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
            time.sleep(_POLL_SECONDS)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Sends it, if the command has not ended."""
        if self.poll() is None:
            os.kill(self.pid, number)


def start(arguments: list[str], log: str) -> subprocess.Popen | Forked:
    """Starts a command without a GPU.

    Args:
      arguments: of Python: "-m" and a module, or a script in the root.
      log: file that its output is added to.
    """
    if _forking:
        return Forked(lambda: _run(arguments, log))
    with open(log, "a", encoding="utf-8") as f:
        return subprocess.Popen(
            [sys.executable, *arguments],
            cwd=ROOT,
            env=os.environ | _ENVIRONMENT,
            stdout=f,
            stderr=f,
            preexec_fn=processes.die_with_parent,
        )


class Group:
    """Processes of one run, in a `with` block that none of them outlives."""

    def __init__(self):
        self.processes: list[subprocess.Popen | Forked] = []
        self.logs: list[str] = []

    def __enter__(self) -> "Group":
        return self

    def __exit__(self, *error) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
        for process in self.processes:
            process.wait()

    def start(self, arguments: list[str], log: str) -> None:
        """`start` with a log that begins anew."""
        files.write_text(log, "")
        self.processes.append(start(arguments, log))
        self.logs.append(log)

    def last_line(self, index: int) -> str:
        """Of a process's output; "" when it has none."""
        with open(self.logs[index], encoding="utf-8", errors="replace") as f:
            return (f.read().strip().splitlines() or [""])[-1]

    def finish(self, timeout: float) -> None:
        """Waits for all.

        Raises:
          RuntimeError: one failed, the first that did; its log and last line.
          subprocess.TimeoutExpired: some still run after `timeout` seconds.
        """
        end = time.monotonic() + timeout
        running = list(range(len(self.processes)))
        while running:
            # One look at each: what ends between two would not be reported.
            statuses = {i: self.processes[i].poll() for i in running}
            for index, status in statuses.items():
                if status:
                    raise RuntimeError(
                        f"process {index} ended with {status}: see "
                        f"{self.logs[index]}: {self.last_line(index)}"
                    )
            running = [i for i, s in statuses.items() if s is None]
            if running and time.monotonic() > end:
                log = self.logs[running[0]]
                raise subprocess.TimeoutExpired(f"see {log}", timeout)
            time.sleep(_POLL_SECONDS)


def in_fork(function: Callable, *arguments):
    """`function(*arguments)`, a JSON value; in a fork where commands are."""
    if not _forking:
        return function(*arguments)
    reader, writer = os.pipe()

    def run() -> None:
        with os.fdopen(writer, "w") as f:
            json.dump(function(*arguments), f)

    process = Forked(run)
    os.close(writer)
    with os.fdopen(reader) as f:
        text = f.read()
    if process.wait():
        raise RuntimeError(f"{function.__name__} failed")
    return json.loads(text)


def _run(arguments: list[str], log: str) -> None:
    os.chdir(ROOT)
    with open(log, "ab") as f, open(os.devnull, "rb") as null:
        os.dup2(null.fileno(), 0)
        os.dup2(f.fileno(), 1)
        os.dup2(f.fileno(), 2)
    rest = arguments[1:] if arguments[0] == "-m" else arguments
    name = os.path.basename(rest[0]).removesuffix(".py")
    sys.argv = [name, *rest[1:]]
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def end_with(run: Callable[[], None]) -> None:
    """Runs it in a fork; never returns."""
    status = 1
    processes.die_with_parent()
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        run()
        status = 0
    except SystemExit as e:
        status = e.code if isinstance(e.code, int) else int(e.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)
