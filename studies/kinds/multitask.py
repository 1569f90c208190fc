"""GLUE's tasks alone and joint, as section 3.5 of the XLNet paper.

`kind = "multitask"`: every seed is one `run_multitask.py --schedule=paper`, which
trains the large tasks joint, the others from these weights, and the large ones
alone: models of two rows in one job. The others alone are runs of
`run_classifier.py`. Then the seeds of a row answer together (`--ensemble`).
"""

import dataclasses
import itertools
import os
from collections.abc import Sequence
from typing import Any

from common import files
from common.errors import UserError
from studies.runner import study_commands
from studies.runner.jobs import NOT_RUN, Job
from studies.runner.seed_table import Column, Row, table
from studies.runner.speeds import Speed
from studies.runner.study import Runner
from studies.runner.study_commands import Command, command
from training.finetuning.options import JOINT as LARGE
from training.finetuning.options import OTHERS, PAPER, TASKS, TOGETHER

ALONE, JOINT = "alone", "joint"
_ALL = "all"  # seeds
# Flags that the jobs give.
_OF_BOTH = (*study_commands.TUNING, "do_train", "do_eval")
_OF_ALONE = (*_OF_BOTH, "task_name", "num_seeds", "ensemble")
_OF_JOINT = (*_OF_BOTH, "schedule")


@dataclasses.dataclass(frozen=True)
class MultiTaskOptions:
    """What to train.

    Attributes:
      seeds: how many, from 0.
      start: folder of the weights that all begin with.
      alone, joint: commands of one task, and of the paper's schedule.
      tasks: those of the schedule that are in the table -> flags of `alone`
        that a task has of its own.
      metrics: name -> of its column; accuracy where there is none.
    """

    seeds: int
    start: str
    alone: Command
    joint: Command
    tasks: dict[str, dict]
    metrics: dict[str, str] = dataclasses.field(default_factory=dict)
    kind: str = "multitask"
    name: str = ""

    def __post_init__(self):
        refuse = study_commands.refuse_given
        if type(self.seeds) is not int:
            raise UserError(f"`seeds` must be a number, found {self.seeds!r}")
        if not self.tasks or self.seeds < 1:
            raise UserError("wanted [tasks] and `seeds` from 1 on")
        for name, section in (("tasks", self.tasks), ("metrics", self.metrics)):
            study_commands.table(f"[{name}]", section)
            if unknown := sorted(set(section) - {*LARGE, *OTHERS}):
                raise UserError(f"{unknown[0]!r} is no task of the schedule")
        for name, flags in self.tasks.items():
            study_commands.table(f"tasks.{name}", flags)
            refuse(f"tasks.{name}", flags, _OF_ALONE)
        refuse("[alone]", self.alone.flags, _OF_ALONE)
        refuse("[joint]", self.joint.flags, _OF_JOINT)

    def chosen(self, tasks: Sequence[str]) -> "MultiTaskOptions":
        """Without the other tasks in the table; the schedule has them all.

        Raises:
          UserError: a name is no task.
        """
        left = study_commands.chosen(self.tasks, tasks)
        return dataclasses.replace(self, tasks=left)


def read_options(value: dict[str, Any]) -> MultiTaskOptions:
    """Of the entries of a file.

    Raises:
      UserError, KeyError, TypeError: one is missing, unknown or wrong.
    """
    commands = {name: command(value[name]) for name in ("alone", "joint")}
    return MultiTaskOptions(**value | commands)


class MultiTask(Runner):
    """The jobs of a file of options."""

    options: MultiTaskOptions

    def _plan(self) -> tuple[list[Job], dict[str, Speed]]:
        tasks, others = self.options.tasks, set(OTHERS)
        jobs = [self._schedule(seed) for seed in range(self.options.seeds)]
        jobs += [self._alone(name) for name in tasks if name in others]
        pairs = itertools.product((ALONE, JOINT), tasks)
        return jobs + [self._together(*pair) for pair in pairs], {}

    def _rows(self) -> list[Row]:
        count = self.options.seeds
        seeds = [str(seed) for seed in range(count)]
        return [
            self._majority(),
            *(self._row(row, row, seeds) for row in (ALONE, JOINT)),
            *(  # of no seed to be compared by
                self._row(f"{row}, {count} together", row, [_ALL])
                for row in (ALONE, JOINT)
            ),
        ]

    def text(self, rows: list[Row]) -> str:
        """The table, Markdown."""
        columns = [
            Column(task, f"{task}, {self._metric(task)}", digits=1)
            for task in self.options.tasks
        ]
        return table(rows, columns, ALONE)

    def _schedule(self, seed: int) -> Job:
        """The paper's schedule with one seed."""
        home = self.path(f"schedule-{seed}", "run")
        words = self.options.joint.words(
            schedule=PAPER,
            init_checkpoint=self.options.start,
            model_dir=home,
            seed=seed,
            do_train=True,
            do_eval=True,
        )
        reads = {}
        for name in self.options.tasks:
            for row in (ALONE, JOINT):
                job = self._place(row, name, seed)
                if job.startswith(home):
                    reads[f"{row} {name}"] = self._read_of(job, name)
        turn = (int(seed > 0), seed)  # the first of everything is there early
        return _job(f"schedule-{seed}", words, reads, turn)

    def _alone(self, task: str) -> Job:
        """One of the others without the joint training, with all seeds."""
        words = self.options.alone.words(
            **self.options.tasks[task],
            task_name=task,
            init_checkpoint=self.options.start,
            model_dir=self.path(ALONE, task, "run"),
            num_seeds=self.options.seeds,
            do_train=True,
            do_eval=True,
        )
        reads = {
            str(seed): self._read_of(self._place(ALONE, task, seed), task)
            for seed in range(self.options.seeds)
        }
        return _job(f"{ALONE}/{task}", words, reads, (0, 1))

    def _together(self, row: str, task: str) -> Job:
        """A row's models of a task as one."""
        home = self.path(f"{row}-together", task, "run")
        members = [
            self._place(row, task, seed) for seed in range(self.options.seeds)
        ]
        words = self.options.alone.words(
            **self.options.tasks[task],
            task_name=task,
            ensemble=",".join(members),
            model_dir=home,
            do_eval=True,
        )
        reads = {task: self._read_of(home, task)}
        return _job(f"{row}-together/{task}", words, reads, (2, 0))

    def _place(self, row: str, task: str, seed: int) -> str:
        """Folder of a task's model."""
        if row == ALONE and task in OTHERS:
            name = "run" if self.options.seeds == 1 else f"run/seed_{seed}"
            return self.path(ALONE, task, name)
        home = self.path(f"schedule-{seed}", "run")
        if row == ALONE or task in OTHERS:
            return os.path.join(home, task)
        return os.path.join(home, TOGETHER, TASKS, task)

    def _metric(self, task: str) -> str:
        return self.options.metrics.get(task, "accuracy")

    def _read_of(self, job: str, task: str) -> tuple[str, str]:
        return os.path.join(job, "eval_dev.json"), self._metric(task)

    def _row(self, name: str, row: str, seeds: list[str]) -> Row:
        """Numbers of single models, or of all of them together."""
        cells = Row(name)
        for task, seed in itertools.product(self.options.tasks, seeds):
            job, label = f"schedule-{seed}", f"{row} {task}"
            if seed == _ALL:
                job, label = f"{row}-together/{task}", task
            elif row == ALONE and task in OTHERS:
                job, label = f"{ALONE}/{task}", seed
            result = dict(self.results[job])
            if label in result:
                result[label] *= 100.0
            cells.add(task, seed, result, label)
        return cells

    def _majority(self) -> Row:
        """The most frequent class of the dev set; 0 for correlations."""
        row = Row("most frequent class")
        for task in self.options.tasks:
            result = {"error": NOT_RUN}
            job = self._place(ALONE, task, 0)
            path = os.path.join(job, "predictions", "dev_confusion.tsv")
            if task in self.options.metrics:
                result = {task: 0.0}
            elif files.exists(path):
                text = files.read_bytes(path).decode()
                cells = [x.split("\t")[1:] for x in text.splitlines()[1:]]
                counts = [sum(map(int, row)) for row in cells]
                result = {task: 100.0 * max(counts) / sum(counts)}
            row.add(task, _ALL, result, task)
        return row


def _job(name: str, words, reads: dict, turn: tuple[int, int]) -> Job:
    """The ensembles begin with the weights of all others."""
    return Job(name, (words,), reads, turn=turn, family="all")
