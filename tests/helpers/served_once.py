"""Starts serving.serve on a free port, asks it once, prints what it answers.

    python -m tests.helpers.served_once EXPORT JSON

The server is a process of its own, so that it ends as users see it end.
"""

import re
import subprocess
import sys
import urllib.request

_ADDRESS = re.compile(r"serving (\S+) at (http://127\.0\.0\.1:\d+)")


def main() -> None:
    """The exit status is the server's."""
    folder, body = sys.argv[1:]
    command = ("-m", "serving.serve", f"--saved_model_dir={folder}", "--port=0")
    with subprocess.Popen(
        [sys.executable, *command], stderr=subprocess.PIPE, text=True
    ) as server:
        try:
            name, address = _find(server.stderr)
            request = urllib.request.Request(
                f"{address}/v1/models/{name}:predict", body.encode()
            )
            with urllib.request.urlopen(request, timeout=60) as answer:
                print(answer.read().decode())
        finally:
            server.terminate()
            sys.stderr.write(server.stderr.read())
    sys.exit(server.returncode)


def _find(lines) -> tuple[str, str]:
    """Name and address of the server, once it says them."""
    for line in lines:
        sys.stderr.write(line)
        if found := _ADDRESS.search(line):
            return found[1], found[2]
    raise SystemExit("the server ended before it listened")


if __name__ == "__main__":
    main()
