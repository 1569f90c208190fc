"""A study: rows that are pretrained and tuned, with seeds (`studies.run`)."""

import functools
import itertools
import os
from collections.abc import Callable
from typing import Any

from common.errors import UserError
from studies import starts
from studies.runner import (
    study_figure,
    study_records,
    study_report,
    study_search,
)
from studies.runner.jobs import LOG, Job, Jobs, because
from studies.runner.seed_table import Row
from studies.runner.speeds import Speed, kind_of
from studies.runner.study_commands import Command, Task, flag_of, timed
from studies.runner.study_file import ResultColumn, RowOptions, StudyOptions
from studies.runner.study_search import Searched


class Runner(Jobs):
    """The jobs of a file of options, and the rows that come of them.

    Attributes:
      listed: the jobs, once they are planned.
      timings: those that commands of others follow from.
    """

    def __init__(
        self,
        folder: str,
        options: Any,
        only_read: bool = False,
        workers: int = 1,
    ):
        super().__init__(folder, workers=workers, only_read=only_read)
        self.options = options
        self.listed: list[Job] = []
        self.timings: list[Job] = []

    def run(
        self, after: Callable[[list[Row]], None] = lambda rows: None
    ) -> list[Row]:
        """Everything that is missing; the rows of the table.

        Args:
          after: takes the rows after each seed (`Job.turn`): what is done of
            the others is in them, too.

        Raises:
          UserError: what all rows need cannot be made.
        """
        self.listed, speeds = self._plan()
        if not self.only_read:
            self._say(self.budget(self.listed, speeds))
        rows: list[Row] = []
        for _ in self.do_in_turn(self.listed):
            rows = self._rows()
            after(rows)
        return rows

    def _plan(self) -> tuple[list[Job], dict[str, Speed]]:
        """All jobs, and what a step of their kinds takes."""
        raise NotImplementedError

    def _rows(self) -> list[Row]:
        """Of what is in the results."""
        raise NotImplementedError

    def text(self, rows: list[Row]) -> str:
        """The report, Markdown."""
        raise NotImplementedError

    def write(self, rows: list[Row]) -> list[str]:
        """Writes the report and its numbers; their paths."""
        return study_report.write(self.folder, self.text(rows), rows)


class Study(Runner):
    """Rows that are pretrained, or begin with given weights, and tuned.

    Attributes:
      records: those of the rows.
    """

    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self.records = study_records.Records(self, self._say)
        self.makers += [of.words() for of in self.options.first.values()]

    def _plan(self) -> tuple[list[Job], dict[str, Speed]]:
        records = {row.key: self._known(row) for row in self.options.rows}
        if None in records.values():
            failed = self._first()
            for row in self.options.rows:
                if records[row.key] is None:
                    made = ("", failed) if failed else self._records(row)
                    records[row.key] = made
        speeds, jobs = {}, []
        if self.options.equal_seconds:
            study_records.check_held_out(self.options, records)
            speeds = self._speeds(records)
        for row in self.options.rows:
            jobs += self._jobs(row, records[row.key], speeds)
        if self.only_read:
            self.records.say_hidden(self.options.rows, records)
        missing = {job.kind for job in jobs if not self.is_done(job)}
        if missing and not (self.options.equal_seconds or self.only_read):
            study_records.check_held_out(self.options, records)
            speeds = self._speeds(records, missing)
        return jobs, speeds

    def _rows(self) -> list[Row]:
        return [self._row(row) for row in self.options.rows]

    def text(self, rows: list[Row]) -> str:
        """The report, Markdown."""
        return study_report.text(*self.shown(rows), self.searches())

    def write(self, rows: list[Row]) -> list[str]:
        """Writes the report and its picture; their paths."""
        text, (_, shown) = self.text(rows), self.shown(rows)
        paths = study_report.write(self.folder, text, shown, self.searches())
        return paths + self.draw(rows)

    def shown(self, rows: list[Row]) -> tuple[StudyOptions, list[Row]]:
        """The columns and the rows of the report."""
        return self.options, rows

    def draw(self, rows: list[Row]) -> list[str]:
        """Writes the picture, if there is one; its files."""
        return study_figure.draw(self.path("figure5"), self.options, rows)

    def read_rows(self, table: str) -> list[Row]:
        """The rows of a `table.tsv` that `write` wrote."""
        return study_figure.read_rows(table, self.options)

    def _first(self) -> str:
        """Makes corpus and vocabulary; why one is not there, "" if all are.

        Raises:
          UserError: one cannot be made.
        """
        for name, command in self.options.first.items():
            result = self.do(Job(name, (command.words(),)))
            error = result.get("error", "")
            if error and not self.only_read:
                raise UserError(f"{self.path(name, 'log.txt')}: {error}")
            if error:
                return because(name, error)
        return ""

    def _known(self, row: RowOptions) -> tuple[str, str] | None:
        """`_records` of a row whose jobs need none any more; None = some do.

        They were done elsewhere, and what came along says which records they
        had. Where nothing is run, one that was is enough. Equal seconds are
        measured with the records.
        """
        if self.options.equal_seconds:
            return None
        seeds = range(1 if row.start else self.options.pretrain_seeds)
        homes = [] if row.start else [f"{row.key}-{n}" for n in seeds]
        jobs = [Job(name, ()) for name in homes]
        for seed in seeds:
            jobs += self._tunings(row, seed, {"init_checkpoint": ""})
        all_done = all(map(self.is_done, jobs))
        if row.start or not self.options.records:
            return ("", "") if all_done else None
        if not (all_done or self.only_read):
            return None
        abouts = map(self.about, homes)
        return self.records.known(row, self.options.records, abouts)

    def _records(self, row: RowOptions) -> tuple[str, str]:
        """(folder, error) of a row's records; "" where it has none."""
        if not self.options.records or row.start:
            return "", ""
        return self.records.made(row, self.options.records)

    def _speeds(
        self, records, wanted: set[str] | None = None
    ) -> dict[str, Speed]:
        """Of pretraining per kind of model, and of every task.

        A kind whose timing failed has none; tasks begin with the weights of
        the first that has some. Evaluations in place are not timed.

        Args:
          wanted: kinds that jobs are missing of; None = all.
        """
        steps, commands, start = self.options.speed_steps, {}, {}
        for row in self.options.rows if steps else ():
            kind = self._kind(row)
            if row.start:
                start = start or self._given(row.start)
            elif kind not in commands and self.records.are_here(
                row, records[row.key][1]
            ):
                commands[kind] = functools.partial(
                    self._timed_pretraining, row, records[row.key][0]
                )
        tasks = {
            name: task
            for name, task in self.options.tasks.items()
            if not task.in_place and (wanted is None or name in wanted)
        }
        if wanted is not None:
            first = list(commands)[:1] if tasks and not start else []
            commands = {
                kind: of
                for kind, of in commands.items()
                if kind in wanted or kind in first
            }
        speeds = self.speeds(commands, steps)
        if self.options.equal_seconds:
            self.timings = self.timings_of(commands, steps)
        names = [f"speed/{kind}-{steps}" for kind in speeds]
        names = [name for name in names if not self.was_elsewhere(name)]
        if names and not start:
            start = {"init_checkpoint": self.path(names[0], "run")}
        commands = {
            name: functools.partial(self._timed_tuning, task, start)
            for name, task in (tasks if start else {}).items()
        }
        return speeds | self.speeds(commands, steps)

    def _timed_pretraining(
        self, row: RowOptions, data: str, home: str, steps: int
    ) -> tuple[tuple[str, ...]]:
        return (timed(self._pretrain(row, data, home, 0), steps),)

    def _timed_tuning(
        self, task: Task, start: dict[str, str], home: str, steps: int
    ) -> tuple[tuple[str, ...]]:
        return (timed(task.words(**start, model_dir=home, seed=0), steps),)

    def _kind(self, row: RowOptions) -> str:
        """What a step costs by: rows of one kind share one timing.

        Where steps follow from it, a row is timed by itself: another one may
        have larger layers.
        """
        flags, rows = self.options.flags_of(row), self.options.rows
        if not (row.seconds_of or row.key in {r.seconds_of for r in rows}):
            return kind_of(flags)
        others = [self.options.flags_of(r) for r in rows if not r.start]
        alike = all(
            of | {"train_steps": 0} == flags | {"train_steps": 0}
            for of in others
            if kind_of(of) == kind_of(flags)
        )
        return kind_of(flags) + ("" if alike else f"-{row.key}")

    def _steps(self, row: RowOptions, speeds: dict[str, Speed]) -> dict:
        """Flags of a pretraining that takes as long as another row's.

        Raises UserError: one of both could not be timed.
        """
        if not row.seconds_of:
            return {}
        rows = {r.key: r for r in self.options.rows}
        other = rows[row.seconds_of]
        pace = [speeds.get(self._kind(r)) for r in (other, row)]
        if None in pace:
            raise UserError(
                f"row {row.name!r}: its steps or those of {other.name!r} were "
                f"not timed; see {self.path('speed')}"
            )
        steps = self.options.flags_of(other)["train_steps"] * pace[0].over(
            pace[1]
        )
        return {"train_steps": max(1, round(steps))}

    def _jobs(
        self,
        row: RowOptions,
        records: tuple[str, str],
        speeds: dict[str, Speed],
    ) -> list[Job]:
        """A row's pretraining per seed, and its tasks per pair of seeds."""
        if row.start:
            return self._tunings(row, 0, self._given(row.start))
        names = [f"{row.key}-{n}" for n in range(self.options.pretrain_seeds)]
        if records[1]:
            self.results |= dict.fromkeys(names, {"error": records[1]})
            return []
        jobs, more = [], self._steps(row, speeds)
        for seed, name in enumerate(names):
            home = self.path(name, "run")
            words = self._pretrain(row, records[0], home, seed, **more)
            reads = self._reads("pretrain", name, home)
            steps = int(flag_of(words, "train_steps"))
            kind, turn = self._kind(row), (seed, -1)
            about = self.records.about(row)
            job = Job(name, (words,), reads, kind, steps, turn, about=about)
            jobs.append(job)
            jobs += self._tunings(row, seed, {"init_checkpoint": home})
        return jobs

    def _tunings(
        self, row: RowOptions, seed: int, start: dict[str, str]
    ) -> list[Job]:
        """Every task, point and seed from one pretraining or given weights."""
        jobs, count = [], self.options.finetune_seeds
        for task, options in self.options.tasks_of(row).items():
            for point, finetune_seed in itertools.product(
                options.points(), self.options.tuning_seeds(task)
            ):
                label = study_search.label(point)
                name = study_search.place(row, seed, task, label, finetune_seed)
                home, steps, place = self.path(name, "run"), 0, ""
                more = point | row.tasks.get(options.base, {})
                if options.in_place:
                    home = place = start["init_checkpoint"]
                    words = options.words(**more, model_dir=home)
                else:
                    # No two pretrainings share the luck of a tuning.
                    own = seed * count + finetune_seed
                    given = dict(start, model_dir=home, seed=own)
                    words = options.words(**more, **given)
                    steps = int(flag_of(words, "train_steps"))
                turn = (finetune_seed if row.start else seed, finetune_seed)
                reads = self._reads(task, name, home)
                job = Job(name, (words,), reads, task, steps, turn, place=place)
                jobs.append(job)
        return jobs

    def _reads(
        self, source: str, name: str, home: str
    ) -> dict[str, tuple[str, str]]:
        """What the job `name` leaves; its run is in `home`."""
        return {
            c.name: (
                self.path(name, LOG)
                if c.file == LOG
                else os.path.join(home, c.file),
                c.metric,
            )
            for c in self.options.columns_of(source)
        }

    def _given(self, start: str) -> dict[str, str]:
        return starts.flags_of(
            start,
            self.options.start,
            self.path("random"),
            self.options.random_init_std,
            write=not self.only_read,
        )

    def _pretrain(
        self, row: RowOptions, data: str, home: str, seed: int, **last
    ) -> tuple[str, ...]:
        more = last | ({"data_dir": data} if data else {})
        command, flags = self.options.pretrain, self.options.flags_of(row)
        words = Command(command.command, flags).words
        return words(**more, model_dir=home, seed=seed)

    def _row(self, options: RowOptions) -> Row:
        """What came of a row's jobs, of the best point where one is searched."""
        row = Row(options.name, rate=self.records.rates.get(options.key))
        row.paper = options.paper
        best = {"pretrain": ""}
        for task in self.options.tasks_of(options):
            searched = self.searched(options, task)
            best[task] = searched.best if searched else ""
        for column in (c for c in self.options.columns if c.of in best):
            point = best[column.of]
            for key, result in self._results(options, column, point).items():
                row.add(column.name, key, result, column.name)
        return row

    def searched(self, row: RowOptions, task: str) -> Searched | None:
        """What a row's search in a task found; None = it has none."""
        if not self.options.tasks[task].search:
            return None
        column, values = self.options.chooser(task), {}
        for point in self.options.tasks[task].points():
            label = study_search.label(point)
            results = self._results(row, column, label).values()
            values[label] = [
                r[column.name] for r in results if column.name in r
            ]
        return Searched(row.name, task, column, values)

    def searches(self) -> list[Searched]:
        """Of all rows and tasks that have one."""
        searched = [
            self.searched(row, task)
            for row in self.options.rows
            for task in self.options.tasks_of(row)
        ]
        return [s for s in searched if s]

    def _results(
        self, row: RowOptions, column: ResultColumn, point: str
    ) -> dict[str, dict]:
        """Seed -> the scaled numbers, or the error, of a column's jobs."""
        results = {}
        for seed in range(1 if row.start else self.options.pretrain_seeds):
            name = f"{row.key}-{seed}"
            places = {} if row.start else {f"{seed}": name}
            if column.of != "pretrain":
                places = {
                    f"{own}" if row.start else f"{seed}.{own}": (
                        study_search.place(row, seed, column.of, point, own)
                    )
                    for own in self.options.tuning_seeds(column.of)
                }
            for key, job_name in places.items():
                result = dict(self.results.get(job_name) or self.results[name])
                if column.name in result:
                    result[column.name] *= column.scale
                results[key] = result
        return results
