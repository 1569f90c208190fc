"""What attackers of a server do, in a process of their own.

    python -m tools.soak.attackers --port=P --row='{"text": "..."}' \\
        --each=8 "deep lists" garbage
    python -m tools.soak.attackers --burn=0.7

`tools.soak.attacks` starts it. It ends with its standard input and then
prints how many seconds of CPU time it took for each second. With --burn it
only takes that much CPU time and does not touch the server. --nice lowers its
priority.
"""

import argparse
import hashlib
import json
import os
import resource
import sys
import threading
import time
from collections.abc import Callable

from tools.soak.attack_table import attacks
from tools.soak.hostile import Stop, repeat


def burn(share: float, stop: Stop) -> None:
    """Takes `share` CPU seconds for every second."""
    count = max(1, round(share + 0.5))
    data = b"x" * (1 << 18)

    def one() -> None:
        while not stop.is_set():
            begin = time.perf_counter()
            used = time.thread_time()
            while time.thread_time() - used < 0.02 * share / count:
                hashlib.sha256(data).digest()  # without Python's lock
            stop.wait(max(0.0, 0.02 - (time.perf_counter() - begin)))

    _together([one] * count, stop)


def _together(calls: list[Callable], stop: Stop) -> None:
    threads = [threading.Thread(target=c, daemon=True) for c in calls]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    stop.set()


def main() -> None:
    """Attacks until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--row", type=json.loads, default={"text": "a"})
    parser.add_argument("--each", type=int, default=8)
    parser.add_argument("--burn", type=float, default=-1.0)
    parser.add_argument("--nice", type=int, default=0)
    parser.add_argument("names", nargs="*")
    a = parser.parse_args()
    os.nice(a.nice)
    stop = Stop()
    begin, used = time.monotonic(), _cpu_seconds()
    print("ready", flush=True)
    if a.burn >= 0:
        burn(a.burn, stop)
    else:
        known = attacks(a.row)
        calls = [
            lambda attack=known[name]: repeat(attack, a.port, stop)
            for name in a.names
            for _ in range(a.each)
        ]
        _together(calls, stop)
    share = (_cpu_seconds() - used) / (time.monotonic() - begin)
    print(f"{share:.3f}", flush=True)
    os._exit(0)  # threads may wait for answers


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
