"""Runs commands in forks of a process that has loaded TensorFlow.

Started by `tests.helpers.commands`: a request and a status per line of JSON. No
operation runs before a fork: TensorFlow makes its threads with the first one.
"""

import atexit
import json
import os
import runpy
import signal
import sys
import threading
import time
import traceback

_POLL_SECONDS = 0.01


def main() -> None:
    """Answers until its input ends."""
    requests = os.fdopen(os.dup(0))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    from tools.faults import server

    server.preload()
    for line in requests:
        status = _run(json.loads(line))
        answers.write(f"{json.dumps(status)}\n")
        answers.flush()


def _run(request: dict) -> int | None:
    """Exit status as `subprocess` gives it; None after `timeout` seconds."""
    child = os.fork()
    if not child:
        _child(request)
    end = time.monotonic() + request["timeout"]
    while time.monotonic() < end:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(_POLL_SECONDS)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def _child(request: dict) -> None:
    """Becomes the command; never returns."""
    status = 1
    try:
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["env"])
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        for number, name in ((1, "stdout"), (2, "stderr")):
            os.dup2(os.open(request[name], os.O_WRONLY | os.O_TRUNC), number)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _python(request["arguments"])
        threading._shutdown()
        status = 0
    except SystemExit as e:
        if isinstance(e.code, str):
            print(e.code, file=sys.stderr)
        status = e.code if isinstance(e.code, int) else int(e.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(status)


def _python(arguments: list[str]) -> None:
    """What `python ARGUMENTS` does."""
    first, *rest = arguments
    if first == "-m":
        sys.path[0] = os.getcwd()
        sys.argv = ["-m", *rest[1:]]
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif first == "-c":
        sys.path[0] = ""
        sys.argv = ["-c", *rest[1:]]
        module = type(sys)("__main__")
        sys.modules["__main__"] = module
        exec(compile(rest[0], "<string>", "exec"), module.__dict__)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(first))
        sys.argv = list(arguments)
        runpy.run_path(first, run_name="__main__")


if __name__ == "__main__":
    main()
