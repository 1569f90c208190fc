"""Runs Python in forks of a process that has loaded TensorFlow.

A connection is one process: `forks.python` sends what it was asked to run and
its streams, then numbers of signals; the answer is the exit status. No
operation runs before a fork: TensorFlow makes its threads with the first one.
"""

import atexit
import json
import multiprocessing.spawn
import os
import random
import runpy
import selectors
import signal
import socket
import sys
import threading
import traceback

_STREAMS = 3


def main(listener: socket.socket) -> None:
    """Answers until standard input ends; all forks end then, too."""
    from tools.faults import server

    server.preload()
    children: dict[socket.socket, int] = {}
    ended, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    with selectors.DefaultSelector() as selector:
        for file in (listener, ended, 0):
            selector.register(file, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fd == 0:
                    for child in children.values():
                        os.kill(child, signal.SIGKILL)
                    return
                if key.fileobj is listener:
                    connection, _ = listener.accept()
                    try:
                        children[connection] = _start(connection)
                    except (EOFError, OSError):  # gone before it asked
                        connection.close()
                        continue
                    selector.register(connection, selectors.EVENT_READ)
                elif key.fd == ended:
                    os.read(ended, 4096)
                    for connection in _end(children):
                        selector.unregister(connection)
                        connection.close()
                elif key.fileobj in children:
                    _signal(key.fileobj, children[key.fileobj])


def _start(connection: socket.socket) -> int:
    """Forks for what a client asks; the child's number."""
    _, streams, _, _ = socket.recv_fds(connection, 1, _STREAMS)
    size = int.from_bytes(_read(connection, 8), "big")
    request = json.loads(_read(connection, size))
    child = os.fork()
    if not child:
        _child(request, streams)
    for stream in streams:
        os.close(stream)
    return child


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def _end(children: dict[socket.socket, int]) -> list[socket.socket]:
    """Tells the clients of processes that have ended; their connections."""
    done = []
    for connection, child in children.items():
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            code = os.waitstatus_to_exitcode(status)
            try:
                connection.sendall(code.to_bytes(8, "big", signed=True))
            except OSError:
                pass  # it has gone, and does not wait
            done.append(connection)
    for connection in done:
        del children[connection]
    return done


def _signal(connection: socket.socket, child: int) -> None:
    """Passes signals on; a client that is gone takes its process along."""
    try:
        numbers = connection.recv(64)
    except OSError:
        numbers = b""
    for number in numbers or [signal.SIGKILL]:
        os.kill(child, number)


def _child(request: dict, streams: list[int]) -> None:
    """Becomes the command; never returns."""
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        for name in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP):
            signal.signal(name, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["env"])
        os.sched_setaffinity(0, request["cores"])
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        if os.environ.get("PYTHONUNBUFFERED"):
            sys.stdout.reconfigure(write_through=True)
        _start_anew(request["executable"])
        paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        sys.path[1:1] = [p for p in paths if p and p not in sys.path]
        _python(request["arguments"])
        status = 0
    except SystemExit as e:
        if isinstance(e.code, str):
            print(e.code, file=sys.stderr)
        status = e.code if isinstance(e.code, int) else int(e.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            threading._shutdown()  # waits for threads and pools of processes
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(status)


def _start_anew(executable: str) -> None:
    """What two processes do not share; their own processes are forks, too."""
    import numpy as np

    random.seed()
    np.random.seed()
    multiprocessing.spawn.set_executable(sys.executable)
    sys.executable = executable


def _python(arguments: list[str]) -> None:
    """What `python ARGUMENTS` does."""
    first, *rest = arguments
    if first == "-m":
        sys.path[0] = os.getcwd()
        sys.argv = ["-m", *rest[1:]]
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif first in ("-c", "-"):
        code = rest.pop(0) if first == "-c" else sys.stdin.read()
        sys.path[0] = ""
        sys.argv = [first, *rest]
        module = type(sys)("__main__")
        sys.modules["__main__"] = module
        exec(compile(code, "<string>", "exec"), module.__dict__)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(first))
        sys.argv = list(arguments)
        runpy.run_path(first, run_name="__main__")
