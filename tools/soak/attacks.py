"""Good neighbours of a server while others attack it.

    python -m tools.soak.attacks --saved_model_dir=OUT/export --seconds=6

Starts `serving.serve` and asks it with a few good clients: quietly, then during
each attack, then during all at once. The attackers are a process of their own
(`tools.soak.attackers`), but share the machine's cores with the server. So
for each attack there is a control: the good clients alone, while another
process takes as much CPU time as the attackers took and leaves the server in
peace. What an attack costs beyond its control is the server's own part. Real
attackers have machines of their own: --nice=10 takes the cores from both of
them when the server needs one. Prints
p50 and p99 of the good clients, their control, how many requests failed, and
the server's CPU time and memory. Ends with status 1 when a good request failed
or the server ended. The wanted bound is a p99 below 3 times the quiet one.
"""

import argparse
import contextlib
import dataclasses
import http.client
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import numpy as np
import psutil

from tools.soak.attack_table import PREDICT, attacks
from tools.soak.hostile import HOST, TIMEOUT, WAIT
from tools.soak.starting import ROOT

ALL, AGAIN = "all at once", "quiet again"
_CALM = 3.0  # seconds after the last attack
_HEAD = (
    "attack", "p50 ms", "p99 ms", "control p99", "p99 / quiet",
    "p99 / control", "attackers' CPU", "server's CPU", "asked", "failed",
    "MiB before", "MiB after",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Row:
    """What came of one attack.

    Attributes:
      p50, p99: seconds of good requests.
      failed: so many of them without a good answer.
      before, after: MiB of the server.
      server_cpu: CPU seconds of the server for each second.
      attackers_cpu: the same of the attackers.
      control: p99 while other work takes the attackers' CPU time.
    """

    name: str
    p50: float
    p99: float
    good: int
    failed: int
    before: float
    after: float
    server_cpu: float = 0.0
    attackers_cpu: float = 0.0
    control: float = float("nan")


class Server:
    """A `serving.serve` process."""

    def __init__(self, saved_model_dir: str, *more: str):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "serving.serve", "--port=0", *more]
            + [f"--saved_model_dir={saved_model_dir}", "--model_name=xlnet"],
            cwd=ROOT,
            env=os.environ | {"CUDA_VISIBLE_DEVICES": ""},
            stderr=subprocess.PIPE,
            text=True,
        )
        self.port = 0
        for line in self.process.stderr:
            if "serving" in line and "http://" in line:
                self.port = int(line.rsplit(":", 1)[1])
                break
        else:
            raise RuntimeError("the server did not start")
        # What it logs must not fill the pipe.
        threading.Thread(
            target=lambda: [None for _ in self.process.stderr], daemon=True
        ).start()

    def good_row(self) -> dict:
        """An instance for its raw-text function."""
        client = http.client.HTTPConnection(HOST, self.port, timeout=TIMEOUT)
        client.request("GET", "/about")
        about = json.loads(client.getresponse().read())["description"]
        inputs = about["signatures"]["serving_default"]["inputs"]
        return {
            name: "a short text" if len(spec["shape"]) == 1 else ["a", "b"]
            for name, spec in inputs.items()
        }

    def close(self) -> None:
        """Ends it."""
        self.process.terminate()
        self.process.wait(TIMEOUT)


def ask(port: int, row: dict, seconds: float, clients: int):
    """(seconds of every good answer, failures) of a few polite clients."""
    body = json.dumps({"instances": [row]}).encode()
    took: list[float] = []
    failed: list[str] = []
    end = time.monotonic() + seconds

    def client() -> None:
        while time.monotonic() < end:
            begin = time.perf_counter()
            try:
                c = http.client.HTTPConnection(HOST, port, timeout=TIMEOUT)
                c.request("POST", PREDICT, body)
                answer = c.getresponse()
                answer.read()
                c.close()
                if answer.status != 200:
                    failed.append(str(answer.status))
            except (OSError, http.client.HTTPException) as e:
                failed.append(type(e).__name__)
            took.append(time.perf_counter() - begin)
            time.sleep(WAIT)

    threads = [threading.Thread(target=client) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return took, failed


def tree(pid: int) -> tuple[float, float]:
    """(MiB, CPU seconds so far) of a process and its children."""
    parent = psutil.Process(pid)
    mib = seconds = 0.0
    for process in [parent, *parent.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            mib += process.memory_info().rss / (1 << 20)
            seconds += sum(process.cpu_times()[:2])
    return mib, seconds


@contextlib.contextmanager
def attackers(*arguments: str) -> Iterator[list[float]]:
    """Attackers for the block; then the list holds their CPU share."""
    cpu_seconds: list[float] = []
    process = subprocess.Popen(
        [sys.executable, "-m", "tools.soak.attackers", *arguments],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        process.stdout.readline()
        yield cpu_seconds
        cpu_seconds.append(float(process.communicate(timeout=TIMEOUT)[0]))
    finally:
        process.kill()
        process.communicate()


def measure(server, name: str, seconds: float, *arguments: str) -> Row:
    """The good clients beside attackers, if any are given."""
    row, pid = server.good_row(), server.process.pid
    before, used = tree(pid)
    shares = [0.0]
    with contextlib.ExitStack() as stack:
        if arguments:
            shares = stack.enter_context(attackers(*arguments))
        begin = time.monotonic()
        took, failed = ask(server.port, row, seconds, clients=4)
        passed = time.monotonic() - begin
        after, used_then = tree(pid)
    p50, p99 = np.percentile(took, [50, 99])
    share = (used_then - used) / passed
    return Row(
        name, p50, p99, len(took), len(failed), before, after, share, shares[0]
    )


def run(
    server,
    seconds: float,
    each: int,
    names: list[str],
    nice: int = 0,
    say=print,
) -> list[Row]:
    """The quiet measurement, then one per attack or `ALL` of them at once.

    Last comes `AGAIN`: what the server holds when all is over.

    Args:
      each: attackers of each attack; one of each for all at once.
      names: of attacks; () = every one, then `ALL`.
      nice: added to the attackers' and the control's nice value.
      say: called with every line of the table.
    """
    good = server.good_row()
    known = list(attacks(good))
    ask(server.port, good, min(seconds, 1.0), clients=4)
    quiet = measure(server, "quiet", 3 * seconds)
    quiet = dataclasses.replace(quiet, control=quiet.p99)
    rows, controls = [quiet], {0.0: quiet.p99}
    low = f"--nice={nice}"
    where = (low, f"--port={server.port}", f"--row={json.dumps(good)}")
    for name in names or [*known, ALL]:
        count, chosen = (1, known) if name == ALL else (each, [name])
        row = measure(server, name, seconds, *where, f"--each={count}", *chosen)
        share = round(row.attackers_cpu, 1)
        if share not in controls:
            alone = measure(server, "control", seconds, low, f"--burn={share}")
            controls[share] = alone.p99
        row = dataclasses.replace(row, control=controls[share])
        rows.append(row)
        say(line(row, quiet.p99))
    time.sleep(_CALM)
    again = measure(server, AGAIN, seconds)
    rows.append(dataclasses.replace(again, control=quiet.p99))
    say(line(rows[-1], quiet.p99))
    return rows


def part(names: list[str], which: str) -> list[str]:
    """The second third of `names` for "2/3"."""
    number, count = map(int, which.split("/"))
    ends = [len(names) * i // count for i in (number - 1, number)]
    return names[slice(*ends)]


def line(row: Row, quiet: float) -> str:
    """A row of the table."""
    cells = (
        row.name,
        f"{1e3 * row.p50:.1f}",
        f"{1e3 * row.p99:.1f}",
        f"{1e3 * row.control:.1f}",
        f"{row.p99 / quiet:.1f}",
        f"{row.p99 / row.control:.1f}",
        f"{row.attackers_cpu:.2f}",
        f"{row.server_cpu:.2f}",
        f"{row.good}",
        f"{row.failed}",
        f"{row.before:.0f}",
        f"{row.after:.0f}",
    )
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--saved_model_dir", required=True)
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--attackers", type=int, default=8)
    parser.add_argument("--nice", type=int, default=0)
    parser.add_argument("--only", default="", help="names, with semicolons")
    parser.add_argument("--part", default="1/1", help="of all attacks: 2/3")
    a = parser.parse_args()
    server = Server(a.saved_model_dir)
    try:
        print(f"| {' | '.join(_HEAD)} |")
        print("|---" * len(_HEAD) + "|", flush=True)
        names = list(filter(None, a.only.split(";")))
        if not names:
            names = part([*attacks(server.good_row()), ALL], a.part)
        rows = run(
            server,
            a.seconds,
            a.attackers,
            names,
            a.nice,
            say=lambda text: print(text, flush=True),
        )
        print(line(rows[0], rows[0].p99))
        alive = server.process.poll() is None
    finally:
        server.close()
    if not alive or any(row.failed for row in rows):
        sys.exit(1)


if __name__ == "__main__":
    main()
