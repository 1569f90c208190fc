"""Command: what pretraining adds, task by task, with few labels and with all.

    python -m studies.results_table --output_dir=OUT --data_dir=DATA \\
        --init_checkpoint=PRETRAINED       # studies/options/results_table.toml
    python -m studies.results_table --output_dir=OUT ... --table

Every task of the file of options is tuned from the pretrained weights and from
random ones of the same architecture, with every number of labels and every
seed; a seed draws the same examples and the same order for both. Writes
`table.md`, `results.json`, `table.tsv` (every value) and, for tasks with three
numbers of labels or more, `curves.png` (and .svg). A difference counts where it
is larger than two standard errors. Killed at any moment, the same command goes
on; a job that fails is a line of the table; `--table` runs nothing. See
docs/explanation/results.md.
"""

import dataclasses
import itertools
import os

from absl import flags

from common import files, summary
from common.errors import UserError
from common.vocabularies import vocabulary
from flags import app
from studies.runner import known_jobs
from studies.runner.jobs import Job, Jobs
from studies.runner.jobs import define as define_jobs
from studies.runner.results_cells import (
    ALL,
    OPTIONS,
    STARTS,
    Cell,
    TableOptions,
    draw,
    load,
)

FLAGS = flags.FLAGS


class ResultsTable(Jobs):
    """The jobs of a file of options."""

    def __init__(
        self,
        folder: str,
        options: TableOptions,
        start: str,
        only_read: bool = False,
        workers: int = 1,
    ):
        super().__init__(folder, workers=workers, only_read=only_read)
        self._options, self._start = options, start
        self.listed: list[Job] = []
        self._random = _config(start)
        if options.random_init_std:
            name = os.path.basename(self._random)
            self._random = self.path("random", name)

    def _write_random(self) -> None:
        """The architecture's file with the deviation of the random start."""
        from modeling.encoders import registry

        deviation = self._options.random_init_std
        if deviation and not self.only_read:
            config = registry.read_config(_config(self._start))
            os.makedirs(os.path.dirname(self._random), exist_ok=True)
            files.write_text(
                self._random, config.replace(init_std=deviation).to_json()
            )

    def run(self) -> list[Cell]:
        """Everything that is missing; the table's cells."""
        self._write_random()
        cells = [
            (name, labels)
            for name, task in self._options.tasks.items()
            for labels in task.labels
        ]
        self.listed = [
            self.job(*cell, start, seed)
            for seed in range(self._options.seeds)  # a table is there early
            for cell in cells
            for start in self._options.starts
        ]
        done = sum(self.is_done(job) for job in self.listed)
        self._say(f"{len(self.listed)} jobs, {done} done")
        self.do_all(self.listed)
        return [self._cell(*cell) for cell in cells]

    def job(self, name: str, labels: int, start: str, seed: int) -> Job:
        """One training of a task."""
        task = self._options.tasks[name]
        job_name = _name(name, labels, start, seed)
        home = self.path(job_name, "run")
        more = {"model_dir": home, "seed": seed}
        if labels != ALL:
            more |= task.few | {"train_examples": labels}
        if start == STARTS[0]:
            more["init_checkpoint"] = self._start
        else:
            more["model_config_path"] = self._random
            more["spiece_model_file"] = vocabulary.find_or_refuse(self._start)
        words = task.command.words(**more, do_train=True, do_eval=True)
        path = os.path.join(home, "eval_dev.json")
        return Job(job_name, (words,), {"value": (path, task.metric)})

    def values(self) -> str:
        """Every value, a line each, as it was measured (without `scale`)."""
        lines = ["task\tlabels\tstart\tseed\tmetric\tvalue\tseconds\n"]
        seeds = range(self._options.seeds)
        for name, task in self._options.tasks.items():
            starts = self._options.starts
            for labels, *of in itertools.product(task.labels, starts, seeds):
                result = self.results[_name(name, labels, *of)]
                if "value" in result:
                    fields = [name, labels or "all", *of, task.metric]
                    fields.append(f"{result['value']:.6g}")
                    fields.append(f"{result['seconds']:.0f}")
                    lines.append("\t".join(map(str, fields)) + "\n")
        return "".join(lines)

    def _cell(self, name: str, labels: int) -> Cell:
        scale = self._options.tasks[name].scale
        starts = self._options.starts
        values: dict[str, dict[int, float]] = {s: {} for s in starts}
        errors = {}
        for start in starts:
            for seed in range(self._options.seeds):
                result = self.results[_name(name, labels, start, seed)]
                if "value" in result:
                    values[start][seed] = scale * result["value"]
                else:
                    errors[start] = result["error"]
        return Cell(name, labels, values, errors)


def _name(task: str, labels: int, start: str, seed: int) -> str:
    return f"{task}-{labels or 'all'}/{start}-{seed}"


def _config(start: str) -> str:
    """The architecture's file in a folder of weights.

    Raises:
      UserError: there is none.
    """
    for name in ("xlnet_config.json", "config.json"):
        path = os.path.join(start, name)
        if files.exists(path):
            return path
    raise UserError(
        f"--init_checkpoint={start}: wanted a folder that run_pretrain.py "
        "wrote, found no xlnet_config.json or config.json in it"
    )


def table(cells: list[Cell], options: TableOptions) -> str:
    """Markdown: mean ± deviation (n) of both, the gain ± its standard error."""
    both = len(options.starts) == len(STARTS)
    head = ["task", "metric", "labels", *options.starts]
    head += ["gain ± standard error", ""] if both else []
    lines = [head, ["---"] * len(head)]
    for cell in cells:
        line = [
            cell.task,
            options.tasks[cell.task].metric,
            f"{cell.labels:,}" if cell.labels else "all",
            *(_shown(cell, start) for start in options.starts),
        ]
        if both:
            gain = cell.gain()
            line.append(f"{gain[0]:+.1f} ± {gain[1]:.1f}" if gain else "")
            line.append(cell.verdict())
        lines.append(line)
    text = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    return text + (f"\n{in_short(cells)}\n" if both else "")


def in_short(cells: list[Cell]) -> str:
    """In how many tasks pretraining helps, in a sentence."""
    tasks = list(dict.fromkeys(cell.task for cell in cells))
    better = {c.task for c in cells if c.verdict() == "better"}
    worse = {c.task for c in cells if c.verdict() == "worse"}
    return (
        f"Pretrained is better than random by more than two standard errors, "
        f"with some number of labels, on {len(better)} of {len(tasks)} tasks "
        f"({', '.join(t for t in tasks if t in better) or 'none'}), and worse "
        f"on {len(worse)} ({', '.join(t for t in tasks if t in worse) or 'none'})."
    )


def _shown(cell: Cell, start: str) -> str:
    values = list(cell.values[start].values())
    error = cell.errors.get(start)
    if not values:
        return error if error == "not run" else f"failed: {error}"
    of = summary.describe(values)
    text = f"{of['mean']:.1f} ± {of['sd']:.1f} ({of['n']:d})"
    return text if error in (None, "not run") else f"{text}; failed: {error}"


def main() -> None:
    """Runs what is missing and writes the table."""
    places = {"data": os.path.abspath(FLAGS.data_dir)}
    options = load(FLAGS.options, places)
    start = os.path.abspath(FLAGS.init_checkpoint)
    _config(start)
    os.makedirs(FLAGS.output_dir, exist_ok=True)
    where = FLAGS.output_dir, FLAGS.known, FLAGS.table
    with known_jobs.opened(*where) as mine:
        jobs = ResultsTable(
            FLAGS.output_dir, options, start, FLAGS.table, FLAGS.workers
        )
        cells = jobs.run()
        text = table(cells, options)
        paths = []
        if mine:
            known_jobs.write(jobs, jobs.listed)
            files.write_text(jobs.path("table.md"), text)
            files.write_json(
                jobs.path("results.json"),
                [dataclasses.asdict(cell) for cell in cells],
            )
            files.write_text(jobs.path("table.tsv"), jobs.values())
            paths = [
                jobs.path("table.md"),
                *draw(cells, options, jobs.path("curves")),
            ]
    print(text)
    if paths:
        print(f"wrote {', '.join(paths)}")
    print(f"{jobs.hours():.2f} hours of jobs")


def define() -> None:
    """Registers the flags."""
    define_jobs()
    flags.DEFINE_string("data_dir", None, "Folder of the sets.", required=True)
    flags.DEFINE_string(
        "init_checkpoint", None, "A pretrained folder.", required=True
    )
    flags.DEFINE_string("options", OPTIONS, "TOML file of tasks.")
    known_jobs.define()


if __name__ == "__main__":
    define()
    app.run(main)
