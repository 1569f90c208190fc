"""A study: rows that are pretrained and tuned, with seeds (`studies.run`)."""

import hashlib
import itertools
import json
import math
import os
from collections.abc import Callable

from common.errors import UserError
from studies.runner import study_report, study_search
from studies.runner.jobs import Job, Jobs, Speed, because
from studies.runner.seed_table import Row
from studies.runner.study_file import (
    ResultColumn,
    RowOptions,
    StudyOptions,
)
from studies.runner.study_search import Searched

EVALUATIONS = "evaluations.jsonl"
_RATE = 0.005  # of the wanted rate, that a row's may miss
_TRIES = 6


class Study(Jobs):
    """The jobs of a file of options."""

    def __init__(
        self,
        folder: str,
        options: StudyOptions,
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
          UserError: the corpus or the vocabulary cannot be made.
        """
        failed = self._first()
        records = {
            row.key: ("", failed) if failed else self._records(row)
            for row in self.options.rows
        }
        timed = any(row.seconds_of for row in self.options.rows)
        speeds = {}
        if timed or not self.only_read:
            self._check_held_out(records)
            speeds = self._speeds(records)
        self.listed = [
            job
            for row in self.options.rows
            for job in self._jobs(row, records[row.key], speeds)
        ]
        if not self.only_read:
            self._say(self.budget(self.listed, speeds))
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

    def _records(self, row: RowOptions) -> tuple[str, str]:
        """(folder, error) of a row's records, built with P that suffices."""
        if not self.options.records:
            return "", ""
        more = dict(row.records)
        for _ in range(_TRIES):
            text = json.dumps(more, sort_keys=True)
            name = f"records-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
            home = self.path(name, "data")
            words = self.options.records.words(output_dir=home, **more)
            result = self.results.get(name) or self.do(Job(name, (words,)))
            if "error" in result:
                return home, because("records", result["error"])
            wanted, reached, slots = study_report.target_rate(home)
            self.rates[row.key] = reached
            if reached is None or reached >= (1 - _RATE) * wanted:
                break
            more["num_predict"] = max(
                slots + max(1, slots // 8), math.ceil(slots * wanted / reached)
            )
        else:
            self._say(
                f"{row.name}: {reached:.2%} of the tokens are targets, "
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
            flags = self.options.pretrain.flags | row.pretrain
            if failed or not home or flags.get("eval_data_dir"):
                continue
            if study_report.without_held_out(home):
                raise UserError(
                    f"{home} has an empty dev split, and the column "
                    f"{names[0]!r} is of evaluations on it: give [records] "
                    "more text or a larger dev_fraction, or [pretrain] an "
                    "eval_data_dir"
                )

    def _speeds(self, records) -> dict[str, Speed]:
        """Of pretraining per kind of model, and of every task.

        A kind whose timing failed has none; tasks begin with the weights of
        the first that has one. Evaluations in place are not timed.
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
        for name, task in self.options.tasks.items():
            if task.in_place or not start:
                continue

            def tune(home, n, name=name):
                words = self.options.tasks[name].words(
                    init_checkpoint=start, model_dir=home, seed=0
                )
                return (_timed(words, n),)

            speeds[name] = self.speed(name, tune, steps)
        return {k: v for k, v in speeds.items() if v}

    def _kind(self, row: RowOptions) -> str:
        """What a step costs by: rows of one kind share one timing."""
        flags = self.options.pretrain.flags | row.pretrain
        parts = ["pretrain", flags.get("model_type", "xlnet")]
        parts += [
            str(flags[k]) for k in ("objective", "mlm_stream") if k in flags
        ]
        if flags.get("mem_len") == 0:
            parts.append("no_memory")
        if flags.get("next_sentence"):  # BERT's pairs are made while reading
            parts.append("next_sentence")
        return "-".join(parts)

    def _steps(self, row: RowOptions, speeds: dict[str, Speed]) -> dict:
        """Flags of a pretraining that takes as long as another row's.

        Raises:
          UserError: one of both could not be timed.
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
        flags = self.options.pretrain.flags | other.pretrain
        steps = flags["train_steps"] * pace[0].step / pace[1].step
        return {"train_steps": max(1, round(steps))}

    def _jobs(
        self,
        row: RowOptions,
        records: tuple[str, str],
        speeds: dict[str, Speed],
    ) -> list[Job]:
        """A row's pretraining per seed, and its tasks per pair of seeds."""
        jobs, more = [], self._steps(row, speeds)
        for seed in range(self.options.pretrain_seeds):
            name = f"{row.key}-{seed}"
            if records[1]:
                self.results[name] = {"error": records[1]}
                continue
            home = self.path(name, "run")
            words = self._pretrain(row, records[0], home, seed, **more)
            reads = self._reads("pretrain", home)
            steps = int(_flag(words, "train_steps"))
            jobs.append(Job(name, (words,), reads, self._kind(row), steps))
            jobs += self._tunings(row, name, home, seed)
        return jobs

    def _tunings(
        self, row: RowOptions, name: str, start: str, seed: int
    ) -> list[Job]:
        """Every task, point and seed from one pretraining."""
        jobs, count = [], self.options.finetune_seeds
        for task, options in self.options.tasks.items():
            for point, finetune_seed in itertools.product(
                options.points(), range(count)
            ):
                label = study_search.label(point)
                job_name = study_search.place(name, task, label, finetune_seed)
                run = self.path(job_name, "run")
                more = point | row.tasks.get(task, {})
                if options.in_place:
                    words = options.words(**more, model_dir=start)
                    reads = self._reads(task, start)
                    jobs.append(Job(job_name, (words,), reads, task))
                    continue
                # No two pretrainings share the luck of a tuning.
                words = options.words(
                    **more,
                    init_checkpoint=start,
                    model_dir=run,
                    seed=seed * count + finetune_seed,
                )
                steps = int(_flag(words, "train_steps"))
                reads = self._reads(task, run)
                jobs.append(Job(job_name, (words,), reads, task, steps))
        return jobs

    def _reads(self, source: str, home: str) -> dict[str, tuple[str, str]]:
        return {
            c.name: (os.path.join(home, c.file), c.metric)
            for c in self.options.columns_of(source)
        }

    def _pretrain(
        self, row: RowOptions, data: str, home: str, seed: int, **timed
    ) -> tuple[str, ...]:
        command = self.options.pretrain
        kept = {k: v for k, v in command.flags.items() if k not in row.drop}
        more = row.pretrain | timed
        if data:
            more["data_dir"] = data
        more["model_dir"] = home
        return type(command)(command.command, kept).words(**more, seed=seed)

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
            for task in self.options.tasks
        ]
        return [s for s in searched if s]

    def _results(
        self, row: RowOptions, column: ResultColumn, point: str
    ) -> dict[str, dict]:
        """Seed -> the scaled numbers, or the error, of a column's jobs."""
        results = {}
        for seed in range(self.options.pretrain_seeds):
            name = f"{row.key}-{seed}"
            places = {f"{seed}": name}
            if column.of != "pretrain":
                places = {
                    f"{seed}.{finetune_seed}": study_search.place(
                        name, column.of, point, finetune_seed
                    )
                    for finetune_seed in range(self.options.finetune_seeds)
                }
            for key, job_name in places.items():
                result = dict(self.results.get(job_name, self.results[name]))
                if column.name in result:
                    result[column.name] *= column.scale
                results[key] = result
        return results


def _round(job: Job) -> tuple[int, int]:
    """Seeds in turn, so that a table of fewer seeds is there early."""
    first, _, second = job.name.partition("/")
    finetune_seed = int(second.rpartition("-")[2]) if second else -1
    return int(first.rpartition("-")[2]), finetune_seed


def _timed(words: tuple[str, ...], steps: int) -> tuple[str, ...]:
    """A command for so many steps, which may be fewer than its warm-up."""
    more = (f"--train_steps={steps}",)
    if any(w.startswith("--warmup_steps=") for w in words):
        more += ("--warmup_steps=0",)
    return (*words, *more)


def _flag(words: tuple[str, ...], name: str) -> str:
    matching = [w for w in words if w.startswith(f"--{name}=")]
    if not matching:
        raise UserError(f"{' '.join(words)}: `{name}` is missing")
    return matching[-1].split("=", 1)[1]
