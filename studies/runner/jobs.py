"""Jobs that are done once, go on where they stopped, and may fail alone.

A job is a list of commands; what its last one leaves is read into the job's
`result.json`, so that the same list of jobs, started again, does what is
missing. A command that fails is a line of the table and is tried again by the
next start; whoever is killed takes the running command along, and SIGTERM, Ctrl-C
or SIGHUP reach it first, so that what trains can save. Small models leave cores idle:
several workers, each on its share of the cores, do more.
"""

import concurrent.futures
import contextlib
import dataclasses
import functools
import glob
import itertools
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from common import files
from common.errors import UserError
from common.process import cores as cores_lib
from common.process import last_line
from studies.runner import processes
from studies.runner.speeds import CPU, WALL, Speed, measured, to_go
from studies.runner.study_commands import inputs_of, number_in

RESULT = "result.json"
ATTEMPT = "attempt.json"
LOG = "log.txt"  # what its commands print
HINT = "remove it to run the job again"
ELSEWHERE = 0.0  # when a job began that another machine has done
NOT_RUN = "not run"  # the error of what was never started: no failure
_UNREADABLE = (OSError, ValueError, KeyError, IndexError, TypeError)


@dataclasses.dataclass(frozen=True)
class Job:
    """Commands whose last one leaves the numbers of a cell.

    Attributes:
      name: its folder below the output folder.
      commands: argument lists for this interpreter, started where the runner
        was: in the root of the checkout.
      reads: number of the result -> (JSON file, its name there); of a file
        that ends in .jsonl the last line counts, of one that ends in .txt the
        last one that begins with the name.
      kind, steps: what the job costs: `steps` times what a step of this kind
        was measured to take (`budget`).
      turn: the least is done first; those of one first number are one part
        (`do_in_turn`).
      family: jobs of one name travel together (`known_jobs`); "" = those that
        go on from each other.
      about: JSON-able, what travels with the result.
      place: a folder that several jobs write to; one at a time does. "" =
        none but its own.
      inputs: commands that made the files that its own read (`Jobs.makers`).
    """

    name: str
    commands: tuple[tuple[str, ...], ...]
    reads: dict[str, tuple[str, str]] = dataclasses.field(default_factory=dict)
    kind: str = ""
    steps: int = 0
    turn: tuple[int, int] = (0, 0)
    family: str = ""
    about: dict[str, Any] = dataclasses.field(default_factory=dict)
    place: str = ""
    inputs: tuple[tuple[str, ...], ...] = ()


class Jobs:
    """The jobs of one output folder and what came of them.

    Attributes:
      makers: commands of jobs whose files others read: with other ones, what
        these came to is of other files.

    Args:
      folder: receives a folder per job.
      workers: jobs at a time; each has its share of the cores, also where one
        runs alone, so that all times are of the same number of cores.
      only_read: run nothing; what is not done is a line.

    Raises:
      UserError: there are fewer cores than workers.
    """

    def __init__(
        self,
        folder: str,
        say: Callable[[str], None] | None = None,
        workers: int = 1,
        only_read: bool = False,
    ):
        cores = cores_lib.usable()
        if not 1 <= workers <= len(cores):
            raise UserError(
                f"workers must be from 1 to the number of cores, {len(cores)}, "
                f"found {workers}"
            )
        self.folder, self.only_read = os.path.abspath(folder), only_read
        self.results: dict[str, dict] = {}
        self.makers: list[tuple[str, ...]] = []
        self._ended: dict[str, tuple[Job, dict]] = {}  # since the start
        each = len(cores) // workers
        self._shares = [
            frozenset(cores[k * each : (k + 1) * each]) for k in range(workers)
        ]
        self._say = say or _print_line

    def path(self, *parts: str) -> str:
        """Below the folder."""
        return os.path.join(self.folder, *parts)

    def is_done(self, job: Job) -> bool:
        """Whether its result is there."""
        return files.exists(self.path(job.name, RESULT))

    def about(self, name: str) -> dict[str, Any]:
        """What came with the result of a job that was done elsewhere."""
        return _attempt(self.path(name)).get("about", {})

    def was_elsewhere(self, name: str) -> bool:
        """Whether a job was done in another folder: it left a result alone."""
        return _attempt(self.path(name)).get("began") == ELSEWHERE

    def read(self, job: Job) -> dict:
        """What came of a job before; runs nothing."""
        if self.is_done(job):
            result = run_job(self._whole(job), self.folder)
        else:
            attempt = _attempt(self.path(job.name))
            result = {"error": attempt.get("error", NOT_RUN)}
        self.results[job.name] = result
        return result

    def do(self, job: Job) -> dict:
        """Runs a job unless it is done, says what came of it and keeps it.

        Raises:
          UserError, KeyboardInterrupt: it was told to stop.
        """
        with processes.RUNNING.until_told():
            return self.do_on(job, self._shares[0])

    def do_all(self, jobs: Iterable[Job]) -> None:
        """Does jobs, as many at a time as there are workers, in their order.

        A job `a/b` begins when `a` has ended, fails where `a` failed, and is
        not run where `a` was not. Those of one `place` follow each other.

        Raises:
          UserError, KeyboardInterrupt: it was told to stop.
        """
        waiting, running = list(jobs), {}
        free, workers = list(self._shares), len(self._shares)
        with (
            processes.RUNNING.until_told(),
            concurrent.futures.ThreadPoolExecutor(workers) as pool,
        ):
            while running or (
                waiting and not processes.RUNNING.stopped.is_set()
            ):
                ahead = {j.name for j in (*waiting, *running.values())}
                for job in [j for j in waiting if parent(j) not in ahead]:
                    failed = self.results.get(parent(job), {}).get("error")
                    if failed:
                        line = because(parent(job), failed)
                        self.results[job.name] = {"error": line}
                    elif (
                        len(running) < workers
                        and not processes.RUNNING.stopped.is_set()
                        and not _share_a_place(job, running.values())
                    ):
                        task = pool.submit(self._do_and_free, job, free)
                        running[task] = job
                    else:
                        continue
                    waiting.remove(job)
                done, _ = concurrent.futures.wait(
                    running, return_when=concurrent.futures.FIRST_COMPLETED
                )
                for task in done:
                    del running[task]
                    task.result()

    def do_in_turn(self, jobs: Iterable[Job]) -> Iterator[None]:
        """Does jobs part by part (`Job.turn`); yields after each.

        What earlier starts did of later parts is in the results, too.

        Raises:
          UserError, KeyboardInterrupt: it was told to stop.
        """
        ordered = sorted(jobs, key=lambda job: job.turn)
        by_turn = itertools.groupby(ordered, lambda job: job.turn[0])
        parts = [list(part) for _, part in by_turn]
        if self.only_read:
            parts = [ordered]
        else:
            for job in ordered:
                self.read(job)
        for part in parts or [[]]:
            self.do_all(part)
            yield

    def _do_and_free(self, job: Job, free: list[frozenset[int]]) -> None:
        share = free.pop()
        try:
            self.do_on(job, share)
        finally:
            free.append(share)

    def do_on(self, job: Job, cores: frozenset[int]) -> dict:
        """`do`, on these cores."""
        if self.only_read:
            return self.read(job)
        job = self._whole(job)
        same, result = self._ended.get(job.name, (None, {}))
        if same == job:  # a study may list its jobs again
            self.results[job.name] = result
            return result
        result = run_job(job, self.folder, cores)
        self.results[job.name] = result
        self._ended[job.name] = job, result
        shown = result.get("error") or ", ".join(
            f"{k} {v:.4g}" for k, v in result.items()
        )
        self._say(f"{job.name}: {shown}")
        return result

    def _whole(self, job: Job) -> Job:
        inputs = inputs_of(job.commands, self.makers)
        return dataclasses.replace(job, inputs=inputs)

    def speeds(
        self,
        commands: dict[str, Callable[[str, int], tuple[tuple[str, ...], ...]]],
        steps: int,
    ) -> dict[str, Speed]:
        """What kinds of jobs take, from `steps` and three times as many.

        As many are timed at a time as there are workers.

        Args:
          commands: kind -> (folder of the run, steps) -> commands; the runs
            lie in `speed/`.

        Returns:
          No kind whose run failed.
        """
        jobs = self.timings_of(commands, steps)
        self.do_all(jobs)
        speeds = {}
        for kind, timed in zip(
            commands, zip(jobs[::2], jobs[1::2], strict=True), strict=True
        ):
            results = [self.results[job.name] for job in timed]
            if not any("error" in result for result in results):
                speeds[kind] = measured(*results, steps)
        return speeds

    def timings_of(
        self, commands: dict[str, Callable], steps: int
    ) -> list[Job]:
        """The two jobs of each kind that `speeds` runs."""
        jobs = []
        for kind, of in commands.items():
            for n in (steps, 3 * steps):
                name = f"speed/{kind}-{n}"
                jobs.append(Job(name, of(self.path(name, "run"), n)))
        return jobs

    def budget(self, jobs: Iterable[Job], speeds: dict[str, Speed]) -> str:
        """One line: how many jobs there are, and hours of what is missing."""
        listed = list(jobs)
        missing = [j for j in listed if not self.is_done(j)]
        line = f"{len(listed)} jobs, {len(listed) - len(missing)} done"
        steps = [(j.kind, j.steps) for j in missing]
        return line + to_go(steps, speeds, len(self._shares))

    def hours(self) -> float:
        """Time of all jobs that ended, what killed starts took included.

        Jobs that ran side by side count one by one.
        """
        return sum(r.get(WALL, 0.0) for r in self.results.values()) / 3600


def _print_line(text: str) -> None:
    """In one piece: workers print at the same time."""
    print(f"{text}\n", end="", flush=True)


def _share_a_place(job: Job, others: Iterable[Job]) -> bool:
    return bool(job.place) and job.place in {other.place for other in others}


def parent(job: Job) -> str:
    """The job that this one goes on from; "" of a name without one."""
    return job.name.rpartition("/")[0]


def because(name: str, error: str) -> str:
    """What `error` of a job is to those that need it; not run is none."""
    return error if error in ("", NOT_RUN) else f"{name}: {error}"


def run_job(job: Job, folder: str, cores: frozenset[int] | None = None) -> dict:
    """The job's numbers, from before or now; {"error": line} of a failure.

    `seconds` is the time of its commands, over all starts; `cpu_seconds` is
    that of the cores, with the time of starts that were cut off. A failure is
    not kept: the next start tries again.

    Raises:
      UserError: it was done, or begun and saved, by other commands.
    """
    home = os.path.join(folder, job.name)
    path = os.path.join(home, RESULT)
    attempt = _attempt(home)
    commands, inputs = (
        [[w.replace(folder, "{}") for w in c] for c in part]  # it may be moved
        for part in (job.commands, job.inputs)
    )
    is_done = files.exists(path)
    # A command would go on from the weights of the other one.
    if attempt and (is_done or _has_weights(home)):
        _refuse_other(home, attempt, commands, inputs)
    if is_done:
        return _with_new_numbers(files.read_json_object(path, HINT), job)
    os.makedirs(home, exist_ok=True)
    log = os.path.join(home, LOG)
    began, before, clock = time.time(), 0.0, time.monotonic()
    if attempt:
        before = attempt["before"]
        if "error" not in attempt:  # killed: from its start to its last line
            last = os.path.getmtime(log) if files.exists(log) else 0.0
            before += max(0.0, last - attempt["began"])
    attempt = {"before": before, "began": began, "commands": commands}
    attempt |= {"inputs": inputs} if inputs else {}
    files.write_json(os.path.join(home, ATTEMPT), attempt)
    cpu: float | None = before
    for command in job.commands:
        with open(log, "ab") as f:
            start = f.tell()  # behind what earlier ones said
            status, used = processes.RUNNING.run(
                [sys.executable, *command],
                stdout=f,
                stderr=f,
                preexec_fn=functools.partial(processes.begin, cores),
            )
        cpu = None if cpu is None or used is None else cpu + used
        if processes.RUNNING.stopped.is_set():
            return _failed(home, attempt, "stopped")
        if status:
            said = files.read_bytes(log)[start:].decode(errors="replace")
            return _failed(home, attempt, last_line.of(status, said))
    result = {WALL: before + time.monotonic() - clock}
    result |= {} if cpu is None else {CPU: cpu}
    for label, (source, name) in job.reads.items():
        try:
            result[label] = number_in(source, name)
        except _UNREADABLE as e:
            line = f"{source} has no {name}: {e!r}"
            return _failed(home, attempt, line)
    files.write_json(path, result)
    return result


def _refuse_other(home: str, attempt: dict, commands, inputs) -> None:
    """UserError where an attempt had other commands, or others before it."""
    # An earlier version kept no `inputs`.
    told = attempt.get("commands", commands), attempt.get("inputs", inputs)
    known = attempt.get("began") == ELSEWHERE
    other = list(map(sorted, told[0])) != list(map(sorted, commands))
    if other or sorted(map(sorted, told[1])) != sorted(map(sorted, inputs)):
        raise UserError(
            f"{home} was made with other options"
            f"{'' if other else ' of what it reads'}; remove it"
            f"{' and leave it out of --known' * known}, or give another "
            "output folder"
        )


def _has_weights(home: str) -> bool:
    """Whether a job that has not ended left a checkpoint of its own."""
    run = os.path.join(glob.escape(home), "run")
    return any(glob.iglob(os.path.join(run, "**", "*.index"), recursive=True))


def _with_new_numbers(result: dict, job: Job) -> dict:
    """Numbers that a job was not asked for when it ran, if they are there.

    What lies in a place of several jobs may be of another one.
    """
    for label, (source, name) in job.reads.items():
        shared = job.place and source.startswith(job.place + os.sep)
        if label not in result and not shared:
            with contextlib.suppress(*_UNREADABLE):
                result[label] = number_in(source, name)
    return result


def _failed(home: str, attempt: dict, line: str) -> dict:
    spent = attempt["before"] + time.time() - attempt["began"]
    attempt = attempt | {"before": spent, "error": line}
    files.write_json(os.path.join(home, ATTEMPT), attempt)
    return {"error": line}


def _attempt(home: str) -> dict:
    """What the last start wrote before its commands; {} before the first."""
    path = os.path.join(home, ATTEMPT)
    return files.read_json_object(path, HINT) if files.exists(path) else {}
