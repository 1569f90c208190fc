"""Servers around a model: in a thread; or, as a script, one that sleeps.

python -m tests.serving.web.slow_server TIMEOUT_S READ_TIMEOUT_S [OPTION=VALUE...]
"""

import contextlib
import socket
import sys
import threading
import time

import numpy as np


class SleepyModel:
    """Sleeps as many seconds as the text says, and says so before.

    Nothing can stop it.
    """

    version = "1"
    variable_shapes = {}
    description = {
        "labels": [],
        "signatures": {
            "serving_default": {
                "meaning": "text in",
                "inputs": {"text": {"dtype": "string", "shape": [None]}},
                "outputs": {},
            }
        },
    }

    def __call__(self, inputs, signature, stop=None):
        seconds = float(inputs["text"][0])
        if seconds:
            print("sleeps", flush=True)
        time.sleep(seconds)
        ones = np.ones([len(inputs["text"])], np.float32)
        return {"x": ones, "y": ones}


@contextlib.contextmanager
def in_thread(model, options):
    """A server in a thread for the block; its port is `.port`."""
    from serving.web.app import build_app
    from serving.web.transport import listen

    server = listen.make_server(build_app(model, options))
    listener = socket.create_server(("127.0.0.1", 0))
    server.port = listener.getsockname()[1]
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        yield server
    finally:
        server.should_exit = True
        thread.join(20)


if __name__ == "__main__":
    # The server's helper process imports this file and needs none of these.
    from serving.options import ServerOptions
    from serving.web.app import build_app
    from serving.web.transport import listen

    options = ServerOptions(
        timeout_s=float(sys.argv[1]),
        read_timeout_s=float(sys.argv[2]),
        **dict(option.split("=", 1) for option in sys.argv[3:]),
    )
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(listen.BACKLOG)
    print(listener.getsockname()[1], flush=True)
    listen.run(build_app(SleepyModel(), options), listener)
