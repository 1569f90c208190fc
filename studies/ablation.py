"""Command: which part of the model teaches; rows that differ in one thing.

    python -m studies.ablation --output_dir=OUT --input_glob='text/*.txt' \\
        --data_dir=DATA                       # studies/ablation.toml
    python -m studies.ablation --output_dir=OUT --options=mine.toml --table

Pretrains every row of one file of options (XLNet's Table 6 and four rows more)
with every seed on the same text, tunes every task from it with every seed, and
writes, after each seed of pretraining, `table.md`, `results.json`, `table.tsv`
and `figure5.png` (and .svg). Rows whose records are made with the same flags
share them; P grows until a row's measured rate of targets is the wanted one
within half a per cent. Where a task has a grid of flags to search, every row is
tuned at all of its points and its best one counts. Every job ends in a
`result.json`: killed at any moment, the same command goes on, and a job that
fails is a line of the table; `jobs.json` takes what is done to another machine
(`--known`). Hours are printed before the start, from measured steps; `--table`
runs nothing, also beside a run.
See docs/ablation.md.
"""

import hashlib
import itertools
import json
import math
import os
from collections.abc import Callable

from absl import flags

from common.errors import UserError
from flags import app
from studies import ablation_report, ablation_search, known_jobs
from studies.ablation_file import (
    AblationOptions,
    ResultColumn,
    RowOptions,
    load,
)
from studies.ablation_search import Searched
from studies.jobs import Job, Jobs, Speed, because
from studies.seed_table import Row

FLAGS = flags.FLAGS
_DEFAULT = os.path.join(os.path.dirname(__file__), "ablation.toml")
EVALUATIONS = "evaluations.jsonl"
_RATE = 0.005  # of the wanted rate, that a row's may miss
_TRIES = 6


class Ablation(Jobs):
    """The jobs of a file of options.

    Args:
      folder: receives everything.
      options: what to do.
      only_read: run nothing; what is not done is a line.
      workers: jobs at a time.
    """

    def __init__(
        self,
        folder: str,
        options: AblationOptions,
        only_read: bool = False,
        workers: int = 1,
    ):
        super().__init__(folder, workers=workers, only_read=only_read)
        self.options = options
        self.rates: dict[str, float | None] = {}
        self.listed: list[Job] = []

    def run(
        self, after: Callable[[list[Row]], None] = lambda rows: None
    ) -> list[Row]:
        """Everything that is missing; the rows of the table.

        Args:
          after: takes the rows after each seed of pretraining: what is done of
            the others is in them, too.

        Raises:
          UserError: the vocabulary cannot be made.
        """
        failed = self._vocabulary()
        records = {
            row.key: ("", failed) if failed else self._records(row)
            for row in self.options.rows
        }
        self.listed = [
            job
            for row in self.options.rows
            for job in self._jobs(row, records[row.key])
        ]
        if not self.only_read:
            self._check_held_out(records)
            self._say(self.budget(self.listed, self._speeds(records)))
        by_seed = itertools.groupby(
            sorted(self.listed, key=_round), lambda job: _round(job)[0]
        )
        parts = [list(jobs) for _, jobs in by_seed]
        if self.only_read:
            parts = [self.listed]
        else:
            for job in self.listed:  # what earlier starts did
                self.read(job)
        rows = []
        for jobs in parts or [[]]:
            self.do_all(jobs)
            rows = [self._row(row) for row in self.options.rows]
            after(rows)
        return rows

    def _vocabulary(self) -> str:
        """Makes it; why it is not there, "" if it is.

        Raises:
          UserError: it cannot be made.
        """
        if not self.options.vocabulary:
            return ""
        made = self.do(Job("vocabulary", (self.options.vocabulary.words(),)))
        error = made.get("error", "")
        if error and not self.only_read:
            raise UserError(f"{self.path('vocabulary', 'log.txt')}: {error}")
        return because("vocabulary", error)

    def _records(self, row: RowOptions) -> tuple[str, str]:
        """(folder, error) of a row's records, built with P that suffices."""
        more = dict(row.records)
        for _ in range(_TRIES):
            text = json.dumps(more, sort_keys=True)
            name = f"records-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
            home = self.path(name, "data")
            words = self.options.records.words(output_dir=home, **more)
            made = self.results.get(name) or self.do(Job(name, (words,)))
            if "error" in made:
                return home, because("records", made["error"])
            wanted, found, slots = ablation_report.target_rate(home)
            self.rates[row.key] = found
            if found is None or found >= (1 - _RATE) * wanted:
                break
            more["num_predict"] = max(
                slots + max(1, slots // 8), math.ceil(slots * wanted / found)
            )
        else:
            self._say(
                f"{row.name}: {found:.2%} of the tokens are targets, "
                f"{wanted:.2%} were wanted"
            )
        return home, ""

    def _check_held_out(self, records: dict[str, tuple[str, str]]) -> None:
        """Before the first pretraining: there is what a column is read from.

        Raises:
          UserError: a row's records have an empty dev split, a column is of
            the evaluations, and nothing else is evaluated on.
        """
        names = [
            c.name
            for c in self.options.columns_of("pretrain")
            if c.file == EVALUATIONS
        ]
        for row in self.options.rows if names else ():
            home, failed = records[row.key]
            own = self.options.pretrain.flags | row.pretrain
            if failed or own.get("eval_data_dir"):
                continue
            if ablation_report.without_held_out(home):
                raise UserError(
                    f"{home} has an empty dev split, and the column "
                    f"{names[0]!r} is of evaluations on it: give [records] "
                    "more text or a larger dev_fraction, or [pretrain] an "
                    "eval_data_dir"
                )

    def _speeds(self, records) -> dict[str, Speed]:
        """Of pretraining per kind of model, and of every task.

        A kind whose timing failed has none; tasks begin with the weights of
        the first that has one.
        """
        steps, speeds, start = self.options.speed_steps, {}, ""
        for row in self.options.rows:
            kind = self._kind(row)
            if kind in speeds or records[row.key][1]:
                continue

            def pretrain(home, n, row=row):
                data = records[row.key][0]
                return (_timed(self._pretrain(row, data, home, 0), n),)

            speeds[kind] = self.speed(kind, pretrain, steps)
            if speeds[kind] and not start:
                start = self.path(f"speed/{kind}-{steps}", "run")
        for name in self.options.tasks if start else ():

            def tune(home, n, name=name):
                words = self.options.tasks[name].words(
                    init_checkpoint=start, model_dir=home, seed=0
                )
                return (_timed(words, n),)

            speeds[name] = self.speed(name, tune, steps)
        return {k: v for k, v in speeds.items() if v}

    def _kind(self, row: RowOptions) -> str:
        """What a step costs by: rows of one kind share one timing."""
        given = self.options.pretrain.flags | row.pretrain
        parts = ["pretrain", given.get("model_type", "xlnet")]
        parts += [
            str(given[k]) for k in ("objective", "mlm_stream") if k in given
        ]
        if given.get("mem_len") == 0:
            parts.append("no_memory")
        if given.get("next_sentence"):  # BERT's pairs are made while reading
            parts.append("next_sentence")
        return "-".join(parts)

    def _jobs(self, row: RowOptions, records: tuple[str, str]) -> list[Job]:
        """A row's pretraining per seed, and its tasks per pair of seeds."""
        jobs = []
        for seed in range(self.options.pretrain_seeds):
            name = f"{row.key}-{seed}"
            if records[1]:
                self.results[name] = {"error": records[1]}
                continue
            home = self.path(name, "run")
            words = self._pretrain(row, records[0], home, seed)
            reads = self._reads("pretrain", home)
            steps = int(_flag(words, "train_steps"))
            jobs.append(Job(name, (words,), reads, self._kind(row), steps))
            jobs += self._tunings(name, home, seed)
        return jobs

    def _tunings(self, name: str, start: str, seed: int) -> list[Job]:
        """Every task, point and seed from one pretraining."""
        jobs, count = [], self.options.finetune_seeds
        for task, options in self.options.tasks.items():
            for point, own in itertools.product(options.points(), range(count)):
                label = ablation_search.label(point)
                place = ablation_search.place(name, task, label, own)
                run = self.path(place, "run")
                # No two pretrainings share the luck of a tuning.
                words = options.words(
                    **point,
                    init_checkpoint=start,
                    model_dir=run,
                    seed=seed * count + own,
                )
                steps = int(_flag(words, "train_steps"))
                reads = self._reads(task, run)
                jobs.append(Job(place, (words,), reads, task, steps))
        return jobs

    def _reads(self, source: str, home: str) -> dict[str, tuple[str, str]]:
        return {
            c.name: (os.path.join(home, c.file), c.metric)
            for c in self.options.columns_of(source)
        }

    def _pretrain(self, row: RowOptions, data: str, home: str, seed: int):
        own = self.options.pretrain
        kept = {k: v for k, v in own.flags.items() if k not in row.drop}
        more = row.pretrain | {"data_dir": data, "model_dir": home}
        return type(own)(own.command, kept).words(**more, seed=seed)

    def _row(self, options: RowOptions) -> Row:
        """What came of a row's jobs, of the best point where one is searched."""
        row = Row(options.name, rate=self.rates.get(options.key))
        row.paper = options.paper
        best = {}
        for task in self.options.tasks:
            searched = self.searched(options, task)
            best[task] = searched.best if searched else ""
        for column in self.options.columns:
            point = best.get(column.of, "")
            for key, result in self._results(options, column, point).items():
                row.add(column.name, key, result, column.name)
        return row

    def searched(self, row: RowOptions, task: str) -> Searched | None:
        """What a row's search in a task found; None = it has none."""
        if not self.options.tasks[task].search:
            return None
        column, found = self.options.chooser(task), {}
        for point in self.options.tasks[task].points():
            label = ablation_search.label(point)
            results = self._results(row, column, label).values()
            found[label] = [r[column.name] for r in results if column.name in r]
        return Searched(row.name, task, column, found)

    def searches(self) -> list[Searched]:
        """Of all rows and tasks that have one."""
        found = [
            self.searched(row, task)
            for row in self.options.rows
            for task in self.options.tasks
        ]
        return [s for s in found if s]

    def _results(
        self, row: RowOptions, column: ResultColumn, point: str
    ) -> dict[str, dict]:
        """Seed -> the scaled numbers, or the error, of a column's jobs."""
        found = {}
        for seed in range(self.options.pretrain_seeds):
            name = f"{row.key}-{seed}"
            places = {f"{seed}": name}
            if column.of != "pretrain":
                places = {
                    f"{seed}.{own}": ablation_search.place(
                        name, column.of, point, own
                    )
                    for own in range(self.options.finetune_seeds)
                }
            for key, place in places.items():
                result = dict(self.results.get(place, self.results[name]))
                if column.name in result:
                    result[column.name] *= column.scale
                found[key] = result
        return found


def _round(job: Job) -> tuple[int, int]:
    """Seeds in turn, so that a table of fewer seeds is there early."""
    first, _, second = job.name.partition("/")
    own = int(second.rpartition("-")[2]) if second else -1
    return int(first.rpartition("-")[2]), own


def _timed(words: tuple[str, ...], steps: int) -> tuple[str, ...]:
    """A command for so many steps, which may be fewer than its warm-up."""
    more = (f"--train_steps={steps}",)
    if any(w.startswith("--warmup_steps=") for w in words):
        more += ("--warmup_steps=0",)
    return (*words, *more)


def _flag(words: tuple[str, ...], name: str) -> str:
    found = [w for w in words if w.startswith(f"--{name}=")]
    if not found:
        raise UserError(f"{' '.join(words)}: `{name}` is missing")
    return found[-1].split("=", 1)[1]


def main() -> None:
    """Runs what is missing and writes the report."""
    folder = os.path.abspath(FLAGS.output_dir)
    places = {"out": folder, "data": FLAGS.data_dir, "text": FLAGS.input_glob}
    options = load(FLAGS.options, places)
    with known_jobs.opened(folder, FLAGS.known, FLAGS.table) as mine:
        ablation = Ablation(folder, options, FLAGS.table, FLAGS.workers)

        def report(rows: list[Row]) -> None:
            if mine:
                known_jobs.write(ablation, ablation.listed)
                paths = ablation_report.write(
                    folder, options, rows, ablation.searches()
                )
                print(f"wrote {', '.join(paths)}")

        rows = ablation.run(report)
    print(ablation_report.text(options, rows, ablation.searches()))
    print(f"{ablation.hours():.2f} hours of jobs in {folder}")


def define() -> None:
    """Registers the flags."""
    flags.DEFINE_string("output_dir", None, "Folder of jobs.", required=True)
    flags.DEFINE_string("options", _DEFAULT, "TOML file of rows, tasks, sizes.")
    flags.DEFINE_string("input_glob", "", "{text} in the file: pretraining.")
    flags.DEFINE_string("data_dir", "", "{data} in the file: tasks' sets.")
    flags.DEFINE_integer("workers", 1, "Jobs at a time, sharing the cores.", 1)
    known_jobs.define()
    flags.DEFINE_bool("table", False, "Run nothing: the table of what is done.")


if __name__ == "__main__":
    define()
    app.run(main)
