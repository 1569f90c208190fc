"""Several processes train one model; some are killed, all start again.

    python -m tools.soak.workers --output_dir=OUT --workers=2 --kills=30

At random moments, half of them while a checkpoint is being written, one
process or all are killed. Where it is one, the others must end with one line.
The same command then starts in all, and at the end the loss log, the weights
and the recurrent memory must be those of processes that nobody killed. A run
that ends too early for all kills is compared and followed by another one.
`--minutes=8` stops after so long (exit status 3); the same command goes on.
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
import sys
import time

import numpy as np

from common import files, locks
from common.errors import UserError
from tools.soak import killing, starting

NO_DROPOUT = ("--dropout=0", "--dropatt=0")


@dataclasses.dataclass
class Outcome:
    """What happened.

    Attributes:
      kills: how often something was killed.
      during_save: so many of them while a checkpoint was being written.
      of_one: so many of one process only.
      starts: how often all were started.
      runs: so many came to their end and were compared.
      survivor_seconds: the longest time until the others had ended.
      same_log: loss logs are equal byte for byte.
      same_weights: weights, slots and memory are equal bit for bit.
      done: all kills are made and all runs compared.
    """

    kills: int = 0
    during_save: int = 0
    of_one: int = 0
    starts: int = 0
    runs: int = 0
    survivor_seconds: float = 0.0
    survivor_lines: list[str] = dataclasses.field(default_factory=list)
    same_log: bool = True
    same_weights: bool = True
    done: bool = False

    def compare(self, whole: str, broken: str) -> None:
        """Notes whether a run that came to its end is as the undisturbed."""
        self.runs += 1
        self.same_log &= killing.same_logs(whole, broken)
        self.same_weights &= starting.in_fork(
            killing.same_checkpoints, whole, broken
        )


def start_group(
    count: int, data_dir: str, model_dir: str, steps: int, *flags: str
) -> starting.Group:
    """All workers, the chief first."""
    hosts = ",".join(f"localhost:{p}" for p in killing.free_ports(count))
    group = starting.Group()
    for index in range(count):
        command = killing.training_command(
            data_dir,
            model_dir,
            steps,
            f"--worker_hosts={hosts}",
            f"--task_index={index}",
            *flags,
        )
        group.start(command[1:], f"{model_dir}.worker{index}.log")
    return group


def soak(
    folder: str,
    steps: int,
    timeout: float,
    count: int = 2,
    kills: int = 1,
    seed: int = 1,
    victim: int | None = None,
    flags: tuple[str, ...] = (),
    minutes: float = float("inf"),
) -> Outcome:
    """An undisturbed group and one whose workers are killed.

    Args:
      folder: for data and models; has `undisturbed` and `killed` after that,
        and what happened so far: the same call goes on there.
      timeout: seconds that one wait may take.
      victim: always this process alone; None = drawn.
      flags: more of the training command.
      minutes: returns after so long, `done` or not.

    Raises:
      UserError: the folder is of another soak.
    """
    end = time.monotonic() + 60 * minutes
    whole = os.path.join(folder, "undisturbed")
    broken = os.path.join(folder, "killed")
    state = os.path.join(folder, "soak.json")
    settings = dict(steps=steps, count=count, seed=seed, victim=victim)
    settings["flags"] = list(flags)
    outcome = _read_state(state, settings, kills)
    data_dir = killing.make_data(folder)
    if outcome is None:
        shutil.rmtree(whole, ignore_errors=True)
        shutil.rmtree(broken, ignore_errors=True)
        with start_group(count, data_dir, whole, steps, *flags) as group:
            group.finish(timeout)
        outcome = Outcome()

    def note() -> None:
        files.write_json(state, settings | dataclasses.asdict(outcome))

    while not outcome.done and time.monotonic() < end:
        note()
        with start_group(count, data_dir, broken, steps, *flags) as group:
            outcome.starts += 1
            rng = random.Random(f"{seed} {outcome.starts}")
            if outcome.kills < kills and _kill_some(
                group, broken, rng, victim, outcome, timeout, steps
            ):
                continue
            group.finish(timeout)
        outcome.compare(whole, broken)
        outcome.done = outcome.kills >= kills
        if not outcome.done:
            shutil.rmtree(broken)
    note()
    return outcome


def _read_state(path: str, settings: dict, kills: int) -> Outcome | None:
    """What happened so far; None = nothing."""
    if not files.exists(path):
        return None
    fields = files.read_json_object(path, "remove its folder")
    for name, wanted in settings.items():
        had = fields.pop(name, None)
        if had != wanted:
            raise UserError(
                f"{path} is of a soak with {name} {had}, now it is {wanted}: "
                "give the same options or another --output_dir"
            )
    outcome = Outcome(**fields)
    outcome.done &= outcome.kills >= kills
    return outcome


def _kill_some(group, model_dir, rng, victim, outcome, timeout, steps) -> bool:
    """Kills one or all at some moment; False = the run ended before."""
    chief = group.processes[0]
    aim_at_save = rng.random() < 0.5
    latest = int(steps * rng.uniform(0.3, 0.9))
    hit = killing.wait_for_moment(chief, model_dir, aim_at_save, rng, latest)
    if chief.poll() is not None:
        return False
    alone = victim is not None or rng.random() < 0.5
    count = len(group.processes)
    victims = range(count)
    if alone:
        victims = [rng.randrange(count) if victim is None else victim]
    for index in victims:
        group.processes[index].send_signal(signal.SIGKILL)
    began = time.monotonic()
    for index, process in enumerate(group.processes):
        status = process.wait(timeout)
        if index in victims:
            continue
        outcome.survivor_lines.append(group.last_line(index))
        if status != 1:
            raise RuntimeError(
                f"ended with {status}, wanted 1: see {group.logs[index]}"
            )
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
      timeout: seconds that it may take.
      flags: those of `soak`.

    Returns:
      The largest relative difference of a loss from the undisturbed run's.

    Raises:
      UserError: the undisturbed run did not save twice, or another number of
        losses followed.
    """
    from training.reporting import loss_log

    data_dir = killing.make_data(folder)
    whole = os.path.join(folder, "undisturbed")
    other = os.path.join(folder, f"then_{count}")
    shutil.rmtree(other, ignore_errors=True)
    shutil.copytree(whole, other)
    with open(os.path.join(other, "checkpoint"), encoding="utf-8") as f:
        names = [line.split('"')[1] for line in f][1:-1]
    if not names:
        raise UserError(
            f"going on needs the save before the last one, and {whole} has "
            f"one: train more than {steps} steps"
        )
    with open(os.path.join(other, "checkpoint"), "w", encoding="utf-8") as f:
        f.write(f'model_checkpoint_path: "{names[-1]}"\n')
        f.writelines(f'all_model_checkpoint_paths: "{n}"\n' for n in names)
    with start_group(count, data_dir, other, steps, *flags) as group:
        group.finish(timeout)
    first = int(names[-1].rpartition("-")[2])
    losses = [loss_log.read(path)[1][first:, 1] for path in (whole, other)]
    if len(losses[0]) != len(losses[1]):
        raise UserError(
            f"{other} has {len(losses[1])} losses from step {first + 1} on, "
            f"wanted {len(losses[0])} as in {whole}"
        )
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
    parser.add_argument(
        "--then", type=int, help="continue with so many processes"
    )
    parser.add_argument("--timeout", type=float, default=600)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    a = parser.parse_args()
    flags = (("--async_save",) if a.async_save else ()) + (
        NO_DROPOUT if a.then else ()
    )
    folder = os.path.abspath(a.output_dir)
    try:
        with locks.held(folder):
            starting.preload()
            outcome = _run(a, folder, flags)
    except (UserError, RuntimeError) as e:
        sys.exit(f"error: {e}")
    if not (outcome.same_log and outcome.same_weights):
        sys.exit(1)
    if not outcome.done:
        sys.exit(3)


def _run(a: argparse.Namespace, folder: str, flags: tuple) -> Outcome:
    """Soaks, prints the outcome and goes on with another number."""
    outcome = soak(
        folder,
        a.steps,
        a.timeout,
        a.workers,
        a.kills,
        a.seed,
        flags=flags,
        minutes=a.minutes,
    )
    shown = dataclasses.asdict(outcome)
    lines = {line.partition("(")[0] for line in outcome.survivor_lines}
    for name, value in (shown | {"survivor_lines": sorted(lines)}).items():
        print(f"{name}: {value}")
    if outcome.done and a.then:
        difference = go_on_with(folder, a.then, a.steps, a.timeout, flags)
        print(f"then {a.then} processes: losses differ by {difference:.1e}")
    return outcome


if __name__ == "__main__":
    main()
