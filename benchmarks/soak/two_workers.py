"""Two processes train one model; one is killed, both start again.

    python -m benchmarks.soak.two_workers --output_dir=OUT

Checks that the other process ends with one line, and that the run then goes
on exactly: same loss log and weights as two processes nobody killed.
"""

import argparse
import dataclasses
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

from benchmarks.soak import killing


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What happened.

    Attributes:
      survivor_status: exit status of the process whose peer was killed.
      survivor_line: the last line that it printed.
      survivor_seconds: how long after the kill it ended.
      same_log: loss logs are equal byte for byte.
      same_weights: all tensors of the last checkpoints are equal.
    """

    survivor_status: int
    survivor_line: str
    survivor_seconds: float
    same_log: bool
    same_weights: bool


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now."""
    sockets = [socket.socket() for _ in range(count)]
    for s in sockets:
        s.bind(("localhost", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def start_pair(
    data_dir: str, model_dir: str, steps: int
) -> list[tuple[subprocess.Popen, str]]:
    """(process, its log file) of both workers, the chief first."""
    hosts = ",".join(f"localhost:{p}" for p in free_ports(2))
    pair = []
    for index in (0, 1):
        command = killing.training_command(
            data_dir,
            model_dir,
            steps,
            f"--worker_hosts={hosts}",
            f"--task_index={index}",
        )
        log = f"{model_dir}.worker{index}.log"
        with open(log, "w", encoding="utf-8") as f:
            environment = os.environ | {
                "CUDA_VISIBLE_DEVICES": "",
                "TF_CPP_MIN_LOG_LEVEL": "3",
                "GRPC_VERBOSITY": "NONE",
            }
            process = subprocess.Popen(
                command,
                cwd=killing.ROOT,
                env=environment,
                stdout=f,
                stderr=f,
            )
        pair.append((process, log))
    return pair


def finish(pair, timeout: float) -> None:
    """Waits for both.

    Raises:
      RuntimeError: one failed.
    """
    for process, log in pair:
        if process.wait(timeout) != 0:
            raise RuntimeError(f"a worker failed: see {log}")


def soak(folder: str, steps: int, victim: int, timeout: float) -> Outcome:
    """An undisturbed pair and one whose worker `victim` is killed."""
    data_dir = killing.make_data(folder)
    whole = os.path.join(folder, "pair_undisturbed")
    broken = os.path.join(folder, "pair_killed")
    for path in (whole, broken):
        shutil.rmtree(path, ignore_errors=True)
    finish(start_pair(data_dir, whole, steps), timeout)

    pair = start_pair(data_dir, broken, steps)
    deadline = time.monotonic() + timeout
    saved = os.path.join(broken, "checkpoint")
    while not os.path.exists(saved):
        if time.monotonic() > deadline or pair[0][0].poll() is not None:
            raise RuntimeError(f"nothing was saved: see {pair[0][1]}")
        time.sleep(0.01)
    pair[victim][0].send_signal(signal.SIGKILL)
    killed_at = time.monotonic()
    survivor, log = pair[1 - victim]
    status = survivor.wait(timeout)
    seconds = time.monotonic() - killed_at
    pair[victim][0].wait()
    with open(log, encoding="utf-8") as f:
        line = f.read().strip().splitlines()[-1]

    finish(start_pair(data_dir, broken, steps), timeout)
    return Outcome(
        status,
        line,
        round(seconds, 1),
        killing.same_logs(whole, broken),
        killing.same_checkpoints(whole, broken),
    )


def main() -> None:
    """Prints the outcome; exit status 1 when something differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output_dir", required=True)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--victim", type=int, default=1, choices=(0, 1))
    parser.add_argument("--timeout", type=float, default=600)
    a = parser.parse_args()
    outcome = soak(a.output_dir, a.steps, a.victim, a.timeout)
    for name, value in dataclasses.asdict(outcome).items():
        print(f"{name}: {value}")
    if not (outcome.same_log and outcome.same_weights):
        sys.exit(1)


if __name__ == "__main__":
    main()
