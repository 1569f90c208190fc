"""A server around a model that sleeps; run as a script by the tests.

python -m tests.serving.web.slow_server TIMEOUT_S READ_TIMEOUT_S [OPTION=VALUE...]
"""

import socket
import sys
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
