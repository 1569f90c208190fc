"""A search over the settings of a pretraining (`kind = "search"`).

A trial is a row: what all rows have, and settings that Optuna draws with what
came of the trials before it (`studies.kinds.space`). `trials.json` keeps the
settings before their jobs begin: a search that was killed goes on.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

from common import checks, figures, files
from common.errors import UserError
from common.summary import describe
from studies.kinds import space as spaces
from studies.runner import study_file
from studies.runner.jobs import NOT_RUN, Job, because
from studies.runner.seed_table import Row, markdown
from studies.runner.speeds import CPU, Speed
from studies.runner.study import Study
from studies.runner.study_commands import (
    RUN,
    as_flags,
    check_steps,
    refuse_given,
)
from studies.runner.study_file import ResultColumn, RowOptions, StudyOptions

TRIALS = "trials.json"
_OTHER = "give another output folder"


@dataclasses.dataclass(frozen=True)
class SearchOptions(StudyOptions):
    """A study, whose rows are done first, and what is drawn.

    Attributes:
      space: of every trial.
      trials: how many are drawn.
      together: trials that are drawn at a time, each without the results of
        the others: as many as there are workers, or more.
      seconds: CPU seconds of training steps that every row and trial has, by
        its measured steps; 0 = `train_steps`.
      by: column whose median over the seeds says which trial is best; "" =
        the first that may be compared.
      draw_seed: of what is drawn.
    """

    space: tuple[spaces.Setting, ...] = ()
    trials: int = 20
    together: int = 2
    seconds: float = 0.0
    by: str = ""
    draw_seed: int = 0

    def __post_init__(self):
        super().__post_init__()
        how = {"form": checks.FIELD, "whole": True}
        checks.within(self, ">= 1", "trials", "together", **how)
        checks.within(self, ">= 0", "draw_seed", **how)
        checks.within(self, ">= 0", "seconds", form=checks.FIELD)
        names = [c.name for c in self.columns if c.compare]
        if not names or self.by not in ("", *names):
            raise UserError(
                "`by` must be a column that may be compared "
                f"({', '.join(names) or 'there is none'}), found {self.by!r}"
            )
        self.refuse_unreported()
        for setting in self.space:
            self._check_setting(setting)
        if any(row.start for row in self.rows):
            raise UserError('kind = "search" pretrains: no row has a `start`')
        if self.seconds and not self.speed_steps:
            raise UserError("`seconds` needs `speed_steps` of at least 1")

    def _check_setting(self, setting: spaces.Setting) -> None:
        """What it may draw would be refused in a row of the file, too."""
        given = setting.values or (setting.low, setting.high)
        for value in given if not setting.choices else ():
            check_steps(f"space.{setting.name}", {setting.name: value})
        if not setting.choices:
            names = (*RUN, "data_dir") if self.records else RUN
            refuse_given("[space]", (setting.name,), names)
        known = self.pretrain.flags if self.pretrain else {}
        for name, choice in setting.choices.items():
            for flag in choice.drop:
                if flag not in known:
                    raise UserError(
                        f"space.{setting.name}.{name}: `drop`: [pretrain] has "
                        f"no {flag!r}"
                    )

    @property
    def chosen_by(self) -> ResultColumn:
        """The column that trials are compared in."""
        compared = [c for c in self.columns if c.compare]
        return next(c for c in compared if c.name == (self.by or c.name))

    @property
    def equal_seconds(self) -> bool:
        """Whether steps follow from measured speeds."""
        return bool(self.seconds) or super().equal_seconds


def read_options(entries: dict[str, Any]) -> SearchOptions:
    """Entries of a file, [space] among them.

    Raises:
      UserError, KeyError, TypeError: one is missing, unknown or wrong.
    """
    drawn = {"space": spaces.read(entries["space"])}
    return study_file.options_of(entries | drawn, SearchOptions)


class Search(Study):
    """The rows of the file, then trials, a few at a time.

    Attributes:
      trials: settings of those that are drawn.
    """

    options: SearchOptions

    def __init__(self, folder: str, options: SearchOptions, *args, **more):
        super().__init__(folder, options, *args, **more)
        self.given = options
        self.trials = self._kept()
        self._take()

    def _kept(self) -> list[spaces.Settings]:
        """Settings of `trials.json`.

        Raises:
          UserError: it is no such file, or of another space.
        """
        path = self.path(TRIALS)
        if not files.exists(path):
            return []
        trials = files.read_json_object(path, _OTHER).get("trials")
        if not isinstance(trials, list):
            raise UserError(f"{path}: wanted a list `trials`: {_OTHER}")
        names = {s.name for s in self.given.space}
        for k, settings in enumerate(trials):
            fits = isinstance(settings, dict) and set(settings) == names
            if not fits or not all(
                s.holds(settings[s.name]) for s in self.given.space
            ):
                raise UserError(
                    f"{path}: trial {k} has {settings}, which [space] has not: "
                    f"{_OTHER}"
                )
        return [
            {s.name: settings[s.name] for s in self.given.space}
            for settings in trials
        ]

    def _take(self) -> None:
        """Trials become rows."""
        rows = tuple(
            spaces.row(f"trial-{k:03d}", self.given.space, settings)
            for k, settings in enumerate(self.trials)
        )
        if rows:
            rows = (*self.given.rows, *rows)
            self.options = dataclasses.replace(self.given, rows=rows)

    def run(
        self, after: Callable[[list[Row]], None] = lambda rows: None
    ) -> list[Row]:
        """Everything that is missing; the rows of the table.

        Raises:
          UserError: what all rows need cannot be made, or Optuna is missing.
        """
        rows = super().run(after)
        while not self.only_read and self._draw():
            rows = super().run(after)
        return rows

    def _draw(self) -> bool:
        """Adds trials; False where there are no more."""
        options, by = self.given, self.given.chosen_by
        count = min(options.together, options.trials - len(self.trials))
        if count <= 0:
            return False
        values = [
            list(row.values.get(by.name, {}).values())
            for row in self._rows()[len(options.rows) :]
        ]
        before = list(zip(self.trials, values, strict=True))
        drawn = spaces.draw(
            options.space, before, count, by.higher, options.draw_seed
        )
        self.trials = self.trials + drawn
        files.write_json(self.path(TRIALS), {"trials": self.trials})
        self._take()
        return bool(drawn)

    def budget(self, jobs, speeds: dict[str, Speed]) -> str:
        """One line: the jobs that there are, and those of trials to come."""
        listed = list(jobs)
        line = super().budget(listed, speeds)
        left = self.given.trials - len(self.trials)
        rows = max(len(self.options.rows), 1)
        if left <= 0 or not speeds:
            return line
        costs = [
            speeds[j.kind].start + j.steps * speeds[j.kind].step
            for j in listed
            if j.kind in speeds
        ]
        if self.given.seconds:  # two runs per row are timed
            steps = 4 * self.given.speed_steps
            kinds = map(self._kind, self.options.rows)
            timed = [speeds[kind] for kind in kinds if kind in speeds]
            costs += [2 * of.start + steps * of.step for of in timed]
        hours = sum(costs) / rows * left / 3600 / len(self._shares)
        return f"{line}; then {left} trials, about {hours:.2f} hours"

    def _kind(self, row: RowOptions) -> str:
        """Rows are timed one by one where they have equal seconds."""
        own = f"-{row.key}" if self.given.seconds else ""
        return super()._kind(row) + own

    def _steps(self, row: RowOptions, speeds: dict[str, Speed]) -> dict:
        if not self.given.seconds:
            return super()._steps(row, speeds)
        step = speeds[self._kind(row)].pace
        return {"train_steps": max(1, round(self.given.seconds / step))}

    def _jobs(self, row, records, speeds: dict[str, Speed]) -> list[Job]:
        """As of every row; one that could not be timed has failed."""
        kind = self._kind(row)
        if not self.given.seconds or records[1] or kind in speeds:
            return super()._jobs(row, records, speeds)
        names = [f"speed/{kind}-{n * self.given.speed_steps}" for n in (1, 3)]
        errors = [self.results.get(n, {}).get("error", "") for n in names]
        error = next(filter(None, errors), NOT_RUN)
        for seed in range(self.given.pretrain_seeds):
            self.results[f"{row.key}-{seed}"] = {
                "error": because(names[0].rpartition("-")[0], error)
            }
        return []

    def text(self, rows: list[Row]) -> str:
        """The report: all trials, the best one first, and its flags."""
        by, columns = self.given.chosen_by, self.options.columns
        names = [s.name for s in self.given.space]
        titles = [c.title or c.name for c in columns]
        more = ["CPU s"] if self.given.seconds else []
        lines = [["row", *names, *titles, *more]]
        lines.append(["---"] * len(lines[0]))
        order = self._order(rows)
        for row in order:
            settings = self._settings(row)
            cells = [f"{settings.get(name, '')}" for name in names]
            values = [_cell(row, c) for c in columns]
            key = row.name.split(" ")[0]
            took = [self._cpu_seconds(key)] if self.given.seconds else []
            lines.append([key, *cells, *values, *took])
        best = order[0]
        head = f"{len(self.trials)} trials of {self.given.trials}, the best "
        head += f"{by.title or by.name} first; median (seeds).\n\n"
        if not best.values.get(by.name):
            return head + markdown(lines)
        return f"{head}{markdown(lines)}\n{self._best(best)}"

    def _cpu_seconds(self, key: str) -> str:
        """What a row's pretraining took, start included: its median."""
        seeds = range(self.given.pretrain_seeds)
        results = [self.results.get(f"{key}-{seed}", {}) for seed in seeds]
        known = [result[CPU] for result in results if CPU in result]
        return f"{describe(known)['median']:.0f}" if known else ""

    def _best(self, row: Row) -> str:
        key = row.name.split(" ")[0]
        options = next(r for r in self.options.rows if r.key == key)
        parts = [
            ("pretraining", options.pretrain),
            ("records", options.records),
        ]
        text = "".join(
            f"- {what}: `{' '.join(as_flags(flags))}`\n"
            for what, flags in parts
            if flags
        )
        less = " ".join(options.drop)
        text += f"- without: {less}\n" if less else ""
        return (
            f"{key} is the best. What it has beside the flags of all:\n\n{text}"
        )

    def _settings(self, row: Row) -> spaces.Settings:
        """Those of a trial; {} of a row of the file."""
        key = row.name.split(" ")[0]
        keys = [r.key for r in self.options.rows[len(self.given.rows) :]]
        return self.trials[keys.index(key)] if key in keys else {}

    def _order(self, rows: list[Row]) -> list[Row]:
        """The best first, those without a number last.

        Rows with fewer seeds than others, which failed, come behind these:
        luck is larger with few.
        """
        by = self.given.chosen_by
        sign = -1 if by.higher else 1

        def rank(row: Row) -> tuple[int, float]:
            values = list(row.values.get(by.name, {}).values())
            median = describe(values)["median"] if values else 0.0
            return -len(values), sign * median

        return sorted(rows, key=rank)

    def draw(self, rows: list[Row]) -> list[str]:
        """What was reached over each setting; the files of the picture."""
        by = self.given.chosen_by
        reached = [
            (settings, describe(list(values.values()))["median"])
            for row in rows
            if (settings := self._settings(row))
            and (values := row.values.get(by.name))
        ]
        if not reached:
            return []
        settings = self.given.space
        width = 2.6 * len(settings) + 1
        figure, (axes,) = figures.new(1, len(settings), figsize=(width, 3.2))
        for axis, setting in zip(axes, settings, strict=True):
            at = [of[setting.name] for of, _ in reached]
            if setting.values:
                at = [setting.values.index(value) for value in at]
                shown = list(map(str, setting.values))
                axis.set_xticks(range(len(shown)), shown, rotation=30)
                axis.set_xlim(-0.5, len(shown) - 0.5)
            else:
                axis.set_xscale("log" if setting.log else "linear")
                ends = [setting.low, setting.high]
                axis.set_xticks(ends, [f"{end:g}" for end in ends])
                axis.set_xlim(*ends)
                axis.minorticks_off()
            axis.plot(at, [value for _, value in reached], "o", clip_on=False)
            axis.set_xlabel(figures.literal(setting.name))
        axes[0].set_ylabel(figures.literal(by.title or by.name))
        figures.caption(
            figure,
            f"A point per trial, n = {len(reached)}: median of its seeds.",
            self.options.command,
        )
        return figures.save(figure, self.path("search"))


def _cell(row: Row, column: ResultColumn) -> str:
    values = list(row.values.get(column.name, {}).values())
    if values:
        median = describe(values)["median"]
        return f"{median:.{column.digits}f} ({len(values)})"
    error = row.errors.get(column.name, "")  # "": the row is without the task
    return error if error in ("", NOT_RUN) else f"failed: {error}"
