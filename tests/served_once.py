"""Starts serving.serve on a free port, asks it once, prints what it answers.

python -m tests.served_once EXPORT JSON
"""

import os
import re
import runpy
import signal
import sys
import urllib.request

_ADDRESS = re.compile(r"serving (\S+) at (http://127\.0\.0\.1:\d+)")


def main() -> None:
    """The server is a fork: TensorFlow runs in it alone."""
    folder, body = sys.argv[1:]
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.dup2(writer, 2)
        os.close(reader)
        sys.argv = ["serving.serve", f"--saved_model_dir={folder}", "--port=0"]
        runpy.run_module("serving.serve", run_name="__main__", alter_sys=True)
        os._exit(1)
    os.close(writer)
    try:
        with os.fdopen(reader) as lines:
            found = None
            while not found:
                line = lines.readline()
                if not line:
                    raise SystemExit("the server ended before it listened")
                sys.stderr.write(line)
                found = _ADDRESS.search(line)
            request = urllib.request.Request(
                f"{found[2]}/v1/models/{found[1]}:predict", body.encode()
            )
            with urllib.request.urlopen(request, timeout=60) as answer:
                print(answer.read().decode())
    finally:
        os.kill(child, signal.SIGTERM)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
