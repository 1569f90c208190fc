"""Command: GLUE's tasks alone and joint, as section 3.5 of the XLNet paper.

    python -m studies.multitask_table --output_dir=OUT --data_dir=GLUE \\
        --init_checkpoint=PRETRAINED       # studies/options/multitask_table.toml
    python -m studies.multitask_table --output_dir=OUT ... --table

Every seed is one `run_multitask.py --schedule=paper`: the large tasks joint, the
others from these weights, the large ones alone; the others alone are runs of
`run_classifier.py`. Then the seeds of a row answer together (`--ensemble`).
Writes `table.md`, differences paired by seed. Killed at any moment, the same
command goes on; a job that fails is a line of the table; `--table` runs nothing.
"""

import dataclasses
import os

from absl import flags

from common import files, locks
from common.errors import UserError
from flags import app
from studies.runner import study_file
from studies.runner.jobs import Job, Jobs
from studies.runner.jobs import define as define_jobs
from studies.runner.seed_table import Column, Row, table
from studies.runner.study_file import Command, command, entries_of, read_toml
from training.finetuning.options import JOINT as LARGE
from training.finetuning.options import OTHERS, PAPER, TASKS, TOGETHER

FLAGS = flags.FLAGS
_DEFAULT = study_file.path_of("multitask_table")
ALONE, JOINT = "alone", "joint"


@dataclasses.dataclass(frozen=True)
class TableOptions:
    """What to train.

    Attributes:
      seeds: how many, from 0.
      alone, joint: commands of one task, and of the paper's schedule.
      tasks: those of the schedule that are in the table -> flags of `alone`
        that a task has of its own.
      metrics: name -> of its column; accuracy where there is none.
    """

    seeds: int
    alone: Command
    joint: Command
    tasks: dict[str, dict]
    metrics: dict[str, str] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        if not self.tasks or self.seeds < 1:
            raise UserError("wanted [tasks] and `seeds` from 1 on")
        for section in (self.tasks, self.metrics):
            if unknown := sorted(set(section) - {*LARGE, *OTHERS}):
                raise UserError(f"{unknown[0]!r} is no task of the schedule")


def load(path: str, places: dict[str, str]) -> TableOptions:
    """Reads a TOML file of options.

    Raises:
      UserError: no TOML, or an entry that is missing, unknown or wrong.
    """
    value = read_toml(path, places)
    with entries_of(path):
        for name in ("alone", "joint"):
            value[name] = command(value[name])
        return TableOptions(**value)


class MultiTaskTable(Jobs):
    """The jobs of a file of options."""

    def __init__(
        self,
        folder: str,
        options: TableOptions,
        start: str,
        only_read: bool = False,
    ):
        super().__init__(folder, only_read=only_read)
        self._options, self._start = options, start

    def run(self) -> list[Row]:
        """Everything that is missing; the rows of the table."""
        seeds = self._options.seeds
        others = [name for name in self._options.tasks if name in OTHERS]
        # The first seed of everything is there early.
        for job in (
            self._schedule(0),
            *map(self._alone, others),
            *(self._schedule(seed) for seed in range(1, seeds)),
            *(
                self._together(row, name)
                for row in (ALONE, JOINT)
                for name in self._options.tasks
            ),
        ):
            self.do(job)
        return [
            self._majority(),
            *map(self._row, (ALONE, JOINT)),
            *map(self._ensembles, (ALONE, JOINT)),
        ]

    def _schedule(self, seed: int) -> Job:
        """The paper's schedule with one seed."""
        home = self.path(f"schedule-{seed}", "run")
        words = self._options.joint.words(
            schedule=PAPER,
            init_checkpoint=self._start,
            model_dir=home,
            seed=seed,
            do_train=True,
            do_eval=True,
        )
        reads = {}
        for name in self._options.tasks:
            for row in (ALONE, JOINT):
                job = self._place(row, name, seed)
                if job.startswith(home):
                    reads[f"{row} {name}"] = self._read_of(job, name)
        return Job(f"schedule-{seed}", (words,), reads)

    def _alone(self, task: str) -> Job:
        """One of the others without the joint training, with all seeds."""
        words = self._options.alone.words(
            **self._options.tasks[task],
            task_name=task,
            init_checkpoint=self._start,
            model_dir=self.path(ALONE, task, "run"),
            num_seeds=self._options.seeds,
            do_train=True,
            do_eval=True,
        )
        reads = {
            str(seed): self._read_of(self._place(ALONE, task, seed), task)
            for seed in range(self._options.seeds)
        }
        return Job(f"{ALONE}/{task}", (words,), reads)

    def _together(self, row: str, task: str) -> Job:
        """A row's models of a task as one."""
        home = self.path(f"{row}-together", task, "run")
        members = [
            self._place(row, task, seed) for seed in range(self._options.seeds)
        ]
        words = self._options.alone.words(
            **self._options.tasks[task],
            task_name=task,
            ensemble=",".join(members),
            model_dir=home,
            do_eval=True,
        )
        reads = {task: self._read_of(home, task)}
        return Job(f"{row}-together/{task}", (words,), reads)

    def _place(self, row: str, task: str, seed: int) -> str:
        """Folder of a task's model."""
        if row == ALONE and task in OTHERS:
            name = "run" if self._options.seeds == 1 else f"run/seed_{seed}"
            return self.path(ALONE, task, name)
        home = self.path(f"schedule-{seed}", "run")
        if row == ALONE or task in OTHERS:
            return os.path.join(home, task)
        return os.path.join(home, TOGETHER, TASKS, task)

    def _read_of(self, job: str, task: str) -> tuple[str, str]:
        metric = self._options.metrics.get(task, "accuracy")
        return os.path.join(job, "eval_dev.json"), metric

    def _row(self, row: str) -> Row:
        """Single models."""
        cells = Row(row)
        for task in self._options.tasks:
            for seed in range(self._options.seeds):
                job, label = f"schedule-{seed}", f"{row} {task}"
                if row == ALONE and task in OTHERS:
                    job, label = f"{ALONE}/{task}", str(seed)
                self._add(cells, task, str(seed), job, label)
        return cells

    def _ensembles(self, row: str) -> Row:
        """What a row's models say together; no seed to be compared by."""
        cells = Row(f"{row}, {self._options.seeds} together")
        for task in self._options.tasks:
            self._add(cells, task, "all", f"{row}-together/{task}", task)
        return cells

    def _add(self, row: Row, task: str, seed: str, job: str, label: str):
        result = dict(self.results[job])
        if label in result:
            result[label] *= 100.0
        row.add(task, seed, result, label)

    def _majority(self) -> Row:
        """The most frequent class of the dev set; 0 for correlations."""
        row = Row("most frequent class")
        for task in self._options.tasks:
            result = {"error": "not run"}
            job = self._place(ALONE, task, 0)
            path = os.path.join(job, "predictions", "dev_confusion.tsv")
            if task in self._options.metrics:
                result = {task: 0.0}
            elif files.exists(path):
                text = files.read_bytes(path).decode()
                cells = [x.split("\t")[1:] for x in text.splitlines()[1:]]
                counts = [sum(map(int, row)) for row in cells]
                result = {task: 100.0 * max(counts) / sum(counts)}
            row.add(task, "all", result, task)
        return row


def columns(options: TableOptions) -> list[Column]:
    """One per task, its metric in the title."""
    return [
        Column(
            task, f"{task}, {options.metrics.get(task, 'accuracy')}", True, 1
        )
        for task in options.tasks
    ]


def main() -> None:
    """Runs what is missing and writes the table."""
    places = {"data": FLAGS.data_dir, "start": FLAGS.init_checkpoint}
    places = {name: os.path.abspath(path) for name, path in places.items()}
    options = load(FLAGS.options, places)
    os.makedirs(FLAGS.output_dir, exist_ok=True)
    with locks.held(FLAGS.output_dir):
        jobs = MultiTaskTable(
            FLAGS.output_dir, options, places["start"], FLAGS.table
        )
        rows = jobs.run()
        text = table(rows, columns(options), ALONE)
        path = jobs.path("table.md")
        files.write_text(path, text)
    print(text)
    print(f"{jobs.hours():.2f} hours of jobs; wrote {path}")


def define() -> None:
    """Registers the flags."""
    define_jobs(workers=False)
    flags.DEFINE_string("data_dir", None, "GLUE's folder.", required=True)
    flags.DEFINE_string(
        "init_checkpoint", None, "A pretrained model.", required=True
    )
    flags.DEFINE_string("options", _DEFAULT, "TOML file of tasks and sizes.")


if __name__ == "__main__":
    define()
    app.run(main)
