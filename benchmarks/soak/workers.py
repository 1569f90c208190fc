"""Several processes train one model; some are killed, all start again.

    python -m benchmarks.soak.workers --output_dir=OUT --workers=2 --kills=30

At random moments, half of them while a checkpoint is being written, one
process or all are killed. Where it is one, the others must end with one line.
The same command then starts in all, and at the end the loss log, the weights
and the recurrent memory must be those of processes that nobody killed.
`--then=4` trains without dropout, which differs by replica, and goes on with so
many processes from the last save but one of the undisturbed run: they must have
its memory, so the losses that follow are its losses but for rounding.
"""

import argparse
import dataclasses
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import numpy as np

from benchmarks.soak import killing

NO_DROPOUT = ("--dropout=0", "--dropatt=0")
Group = list[tuple[subprocess.Popen, str]]


@dataclasses.dataclass
class Outcome:
    """What happened.

    Attributes:
      kills: how often something was killed.
      during_save: so many of them while a checkpoint was being written.
      of_one: so many of one process only.
      starts: how often all were started.
      survivor_seconds: the longest time until the others had ended.
      survivor_lines: their last lines.
      same_log: loss logs are equal byte for byte.
      same_weights: weights, slots and memory are equal bit for bit.
    """

    kills: int = 0
    during_save: int = 0
    of_one: int = 0
    starts: int = 0
    survivor_seconds: float = 0.0
    survivor_lines: list[str] = dataclasses.field(default_factory=list)
    same_log: bool = False
    same_weights: bool = False


def start_group(
    count: int, data_dir: str, model_dir: str, steps: int, *flags: str
) -> Group:
    """(process, its log file) of all workers, the chief first."""
    hosts = ",".join(f"localhost:{p}" for p in killing.free_ports(count))
    group = []
    for index in range(count):
        command = killing.training_command(
            data_dir,
            model_dir,
            steps,
            f"--worker_hosts={hosts}",
            f"--task_index={index}",
            *flags,
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
        group.append((process, log))
    return group


def finish(group: Group, timeout: float) -> None:
    """Waits for all.

    Raises:
      RuntimeError: one failed.
    """
    for process, log in group:
        if process.wait(timeout) != 0:
            raise RuntimeError(f"a worker failed: see {log}")


def soak(
    folder: str,
    steps: int,
    timeout: float,
    count: int = 2,
    kills: int = 1,
    seed: int = 1,
    victim: int | None = None,
    flags: tuple[str, ...] = (),
) -> Outcome:
    """An undisturbed group and one whose workers are killed.

    Args:
      folder: for data and models; has `undisturbed` and `killed` after that.
      steps: of the run.
      timeout: seconds that one wait may take.
      count: processes.
      kills: how many.
      seed: of moments and victims.
      victim: always this process alone; None = drawn.
      flags: more of the training command.
    """
    data_dir = killing.make_data(folder)
    whole = os.path.join(folder, "undisturbed")
    broken = os.path.join(folder, "killed")
    for path in (whole, broken):
        shutil.rmtree(path, ignore_errors=True)
    finish(start_group(count, data_dir, whole, steps, *flags), timeout)
    rng, outcome = random.Random(seed), Outcome()
    while True:
        group = start_group(count, data_dir, broken, steps, *flags)
        outcome.starts += 1
        if outcome.kills == kills:
            finish(group, timeout)
            break
        if not _kill_some(group, broken, rng, victim, outcome, timeout):
            finish(group, timeout)
            break
    outcome.same_log = killing.same_logs(whole, broken)
    outcome.same_weights = killing.same_checkpoints(whole, broken)
    return outcome


def _kill_some(group, model_dir, rng, victim, outcome, timeout) -> bool:
    """Kills one or all at some moment; False = the run ended before."""
    chief = group[0][0]
    hit = killing.wait_for_moment(chief, model_dir, rng.random() < 0.5, rng)
    if chief.poll() is not None:
        return False
    alone = victim is not None or rng.random() < 0.5
    victims = range(len(group))
    if alone:
        victims = [rng.randrange(len(group)) if victim is None else victim]
    for index in victims:
        group[index][0].send_signal(signal.SIGKILL)
    began = time.monotonic()
    for index, (process, log) in enumerate(group):
        status = process.wait(timeout)
        if index in victims:
            continue
        with open(log, encoding="utf-8") as f:
            line = f.read().strip().splitlines()[-1]
        outcome.survivor_lines.append(line)
        if status != 1:
            raise RuntimeError(f"ended with {status}, wanted 1: see {log}")
    seconds = round(time.monotonic() - began, 1)
    outcome.survivor_seconds = max(outcome.survivor_seconds, seconds)
    outcome.kills += 1
    outcome.of_one += alone
    outcome.during_save += hit
    return True


def go_on_with(
    folder: str,
    count: int,
    steps: int,
    timeout: float,
    flags: tuple[str, ...] = (),
) -> float:
    """Starts another number of processes at the last save but one.

    Dropout differs by replica: without `NO_DROPOUT` losses are others.

    Args:
      folder: of `soak`.
      count: processes now.
      steps: of the undisturbed run.
      timeout: seconds that it may take.
      flags: those of `soak`.

    Returns:
      The largest relative difference of a loss from the undisturbed run's.
    """
    from training.reporting import loss_log

    data_dir = killing.make_data(folder)
    whole = os.path.join(folder, "undisturbed")
    other = os.path.join(folder, f"then_{count}")
    shutil.rmtree(other, ignore_errors=True)
    shutil.copytree(whole, other)
    with open(os.path.join(other, "checkpoint"), encoding="utf-8") as f:
        names = [line.split('"')[1] for line in f][1:-1]
    with open(os.path.join(other, "checkpoint"), "w", encoding="utf-8") as f:
        f.write(f'model_checkpoint_path: "{names[-1]}"\n')
        f.writelines(f'all_model_checkpoint_paths: "{n}"\n' for n in names)
    finish(start_group(count, data_dir, other, steps, *flags), timeout)
    first = int(names[-1].rpartition("-")[2])
    losses = [loss_log.read(path)[1][first:, 1] for path in (whole, other)]
    assert len(losses[0]) == len(losses[1]) > 0
    return float(np.max(np.abs(losses[1] / losses[0] - 1)))


def main() -> None:
    """Prints the outcome; exit status 1 when something differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output_dir", required=True)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--async_save", action="store_true")
    parser.add_argument("--then", type=int, help="go on with so many processes")
    parser.add_argument("--timeout", type=float, default=600)
    a = parser.parse_args()
    flags = (("--async_save",) if a.async_save else ()) + (
        NO_DROPOUT if a.then else ()
    )
    outcome = soak(
        a.output_dir,
        a.steps,
        a.timeout,
        a.workers,
        a.kills,
        a.seed,
        flags=flags,
    )
    lines = outcome.survivor_lines
    outcome.survivor_lines = sorted({n.partition("(")[0] for n in lines})
    for name, value in dataclasses.asdict(outcome).items():
        print(f"{name}: {value}")
    if a.then:
        difference = go_on_with(a.output_dir, a.then, a.steps, a.timeout, flags)
        print(f"then {a.then} processes: losses differ by {difference:.1e}")
    if not (outcome.same_log and outcome.same_weights):
        sys.exit(1)


if __name__ == "__main__":
    main()
