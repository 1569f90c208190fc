"""`python`, as a fork of a process that has loaded TensorFlow.

`tests.helpers.commands` writes it to `bin/python`, with the first lines that it
needs: PYTHON, the real one, and SOCKET, where `forks.server` listens.
Signals go to the fork, and its exit status or signal becomes that of this
process. It imports little: it stands for a process that is started often.
"""

import json
import os
import signal
import socket
import sys

PYTHON = sys.executable
SOCKET = ""


def main(python: str, address: str) -> None:
    """Runs the arguments of this process; never returns."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["-u"]:
        os.environ["PYTHONUNBUFFERED"] = "1"
        del arguments[0]
    first = arguments[0] if arguments else "-i"
    if first.startswith("-") and first not in ("-c", "-m", "-"):
        os.execv(python, [python, *arguments])
    request = {
        "arguments": arguments,
        "cores": sorted(os.sched_getaffinity(0)),
        "cwd": os.getcwd(),
        "env": dict(os.environ),
        "executable": os.path.abspath(sys.argv[0]),
    }
    data = json.dumps(request).encode()
    server = socket.socket(socket.AF_UNIX)
    server.connect(address)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda n, _: server.send(bytes([n])))
    socket.send_fds(server, [b"x"], [0, 1, 2])
    server.sendall(len(data).to_bytes(8, "big") + data)
    status = int.from_bytes(_answer(server), "big", signed=True)
    if status < 0:
        if -status != signal.SIGKILL:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


def _answer(server: socket.socket) -> bytes:
    data = b""
    while len(data) < 8:
        part = server.recv(8 - len(data))
        if not part:
            raise SystemExit("the server of forks has ended")
        data += part
    return data


if __name__ == "__main__":
    main(PYTHON, SOCKET)
