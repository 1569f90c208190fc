"""Load test of the local server on loopback.

    python -m benchmarks.serve_load --saved_model_dir=DIR --clients=200 \\
        --seconds=60

Asks the model in this process, in a bare loop without a server, a row and 32
rows at a time: no server can answer more. Then starts the server, times its
start up to the first answer, asks one at a time, then from many clients at
once, each sending its next request when the last is answered. Then the bare
loop once more, as a sign of how steady the machine is. Prints one JSON object;
the exit status is 1 when any answer was not 200.
"""

import asyncio
import json
import re
import subprocess
import sys
import time

import numpy as np
from absl import flags

from common.errors import UserError
from flags import app
from serving.options import ServerOptions
from serving.saved_model import SavedModel

FLAGS = flags.FLAGS
_PATH = "/v1/models/xlnet:predict"


def define() -> None:
    """Registers the flags."""
    flags.DEFINE_string(
        "saved_model_dir", None, "Exported model to load.", required=True
    )
    flags.DEFINE_integer("clients", 200, "Clients at the same time.", 1)
    flags.DEFINE_float("seconds", 60.0, "How long they ask.", 0.1)
    flags.DEFINE_integer("sequential", 100, "Requests one at a time.", 1)
    flags.DEFINE_float("bare_seconds", 5.0, "Of each bare loop.", 0.1)
    flags.DEFINE_integer("words", 110, "Words of a request's text.", 1)


def main() -> None:
    """The command."""
    model = SavedModel(FLAGS.saved_model_dir)
    model.warm_up()
    bare = [_bare(model)]
    start = time.perf_counter()
    command = [sys.executable, "-m", "serving.serve", "--port=0"]
    command.append(f"--saved_model_dir={FLAGS.saved_model_dir}")
    command.append("--model_name=xlnet")
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        port = _read_port(server)
        report = asyncio.run(_load(port, start))
    finally:
        server.terminate()
        server.wait(30)
    bare.append(_bare(model))
    report["bare_loop_before_and_after"] = bare
    most = max(run["per_second"] for runs in bare for run in runs.values())
    report["share_of_the_bare_loop"] = round(
        report["together"]["per_second"] / most, 3
    )
    print(json.dumps(report, indent=2))
    if report["errors"]:
        sys.exit(1)


def _read_port(server) -> int:
    for line in server.stderr:
        match = re.search(r"serving .* at http://\S+:(\d+)", line)
        if match:
            return int(match.group(1))
    raise UserError("the server did not start: run serving.serve by itself")


def _text(number: int) -> str:
    words = [f"word{(number * 7 + i) % 50}" for i in range(FLAGS.words)]
    return " ".join(words)


def _body(number: int) -> bytes:
    return json.dumps({"instances": [{"text": _text(number)}]}).encode()


async def _load(port: int, start: float) -> dict:
    first = _Client(port)
    await first.ask(_body(0))
    report = {"start_to_first_answer_s": round(time.perf_counter() - start, 2)}
    alone = [await first.ask(_body(i)) for i in range(FLAGS.sequential)]
    report["one_at_a_time"] = _summary(alone, sum(s for _, s in alone))
    end = time.perf_counter() + FLAGS.seconds
    load_start = time.perf_counter()
    clients_pairs = await asyncio.gather(
        *(_ask_until(_Client(port), i, end) for i in range(FLAGS.clients))
    )
    together = [pair for client in clients_pairs for pair in client]
    report["together"] = _summary(together, time.perf_counter() - load_start)
    report["clients"] = FLAGS.clients
    report["errors"] = sum(status != 200 for status, _ in alone + together)
    return report


async def _ask_until(client: "_Client", number: int, end: float) -> list:
    pairs = []
    while time.perf_counter() < end:
        pairs.append(await client.ask(_body(number + len(pairs))))
    return pairs


class _Client:
    """One keep-alive connection; little enough not to be the bottleneck."""

    def __init__(self, port: int):
        self._port = port
        self._streams = None

    async def ask(self, body: bytes) -> tuple[int, float]:
        """(status, seconds) of one request; status 0 = connection lost."""
        start = time.perf_counter()
        try:
            if self._streams is None:
                self._streams = await asyncio.open_connection(
                    "127.0.0.1", self._port
                )
            reader, writer = self._streams
            head = (
                f"POST {_PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                f"application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            )
            writer.write(head.encode() + body)
            await writer.drain()
            answer = await reader.readuntil(b"\r\n\r\n")
            length = int(re.search(rb"(?i)content-length: (\d+)", answer)[1])
            await reader.readexactly(length)
            return int(answer.split()[1]), time.perf_counter() - start
        except (OSError, asyncio.IncompleteReadError):
            self._streams = None
            return 0, time.perf_counter() - start


def _summary(pairs: list, seconds: float) -> dict:
    times = np.array([s for _, s in pairs]) * 1000.0
    return {
        "requests": len(pairs),
        "per_second": round(len(pairs) / seconds, 1),
        "p50_ms": round(float(np.percentile(times, 50)), 1),
        "p99_ms": round(float(np.percentile(times, 99)), 1),
    }


def _bare(model: SavedModel) -> dict:
    """Rows per second of `model(...)` in a loop, by rows of a call."""
    summaries = {}
    for rows in (1, ServerOptions.max_batch_size):
        times, bare_start = [], time.perf_counter()
        while time.perf_counter() < bare_start + FLAGS.bare_seconds:
            texts = [_text(len(times) + i) for i in range(rows)]
            start = time.perf_counter()
            model({"text": texts})
            times.append((200, time.perf_counter() - start))
        summary = _summary(times, time.perf_counter() - bare_start)
        summary["per_second"] = round(summary["per_second"] * rows, 1)
        summaries[f"{rows} rows"] = summary
    return summaries


if __name__ == "__main__":
    define()
    app.run(main)
