"""A study with a line per task and number of labels (`kind = "gains"`).

Its rows are what tasks start from. A gain over the reference row counts where it
is larger than two standard errors. Tasks with three numbers of labels or more
have curves. docs/explanation/results/ten_tasks.md has such tables.
"""

import dataclasses

from common import figures, summary
from common.errors import UserError
from studies.runner import study_figure, study_report
from studies.runner.jobs import NOT_RUN
from studies.runner.seed_table import (
    Column,
    Row,
    by_pretraining,
    markdown,
)
from studies.runner.study import Study
from studies.runner.study_commands import ALL
from studies.runner.study_file import ResultColumn, StudyOptions

Gain = tuple[float, float]  # and its standard error


@dataclasses.dataclass(frozen=True)
class GainsOptions(StudyOptions):
    """A study without columns of pretraining: a line is of a task.

    Raises:
      UserError: it has one, or something that this report has no place for.
    """

    def __post_init__(self):
        super().__post_init__()
        self.refuse_unreported()
        for column in self.columns_of("pretrain"):
            raise UserError(
                f'kind = "gains": column {column.name!r} must be of a task '
                f"({', '.join(self.tasks)}), found 'pretrain'"
            )


class Gains(Study):
    """The jobs of a study and a report by task."""

    def text(self, rows: list[Row]) -> str:
        """Markdown: mean ± deviation (n) of each row, and the gains."""
        keys = [row.key for row in self.options.rows]
        base = rows[keys.index(self.options.reference)]
        others = [row for row in rows if row is not base]
        head = ["task", "metric", "labels", *(row.name for row in rows)]
        head += ["gain ± standard error", ""] * len(others)
        lines = [head, ["---"] * len(head)]
        for column in self.options.columns:
            task = self.options.tasks[column.of]
            labels = f"{int(task.labels):,}" if task.labels.isdigit() else ALL
            line = [task.base, column.metric, labels]
            line += [_shown(row, column) for row in rows]
            for row in others:
                of = gain(row, base, column)
                line.append(f"{of[0]:+.1f} ± {of[1]:.1f}" if of else "")
                both = has(row, column) and has(base, column)
                line.append(verdict(of, column) if both else "")
            lines.append(line)
        parts = [markdown(lines)]
        parts += [f"{_in_short(self.options, row, base)}\n" for row in others]
        return "\n".join(parts)

    def write(self, rows: list[Row]) -> list[str]:
        """Writes the report and its curves; their paths."""
        cells, text = self._cells(rows), self.text(rows)
        paths = study_report.save(self.folder, text, cells, self._lines(rows))
        return paths + self.draw(rows)

    def _cells(self, rows: list[Row]) -> list[dict]:
        """A task with a number of labels (0 = all) each."""
        return [
            {
                "task": task.base,
                "labels": int(task.labels) if task.labels.isdigit() else 0,
                "metric": c.metric,
                "values": {
                    row.name: row.values.get(c.name, {}) for row in rows
                },
                "errors": {
                    row.name: row.errors[c.name]
                    for row in rows
                    if c.name in row.errors
                },
            }
            for c in self.options.columns
            for task in (self.options.tasks[c.of],)
        ]

    def _lines(self, rows: list[Row]) -> str:
        """Every value as it was measured (without `scale`), a line each."""
        lines = ["task\tlabels\tstart\tseed\tmetric\tvalue\tseconds\n"]
        for column in self.options.columns:
            task = self.options.tasks[column.of]
            for row in rows:
                for seed, value in row.values.get(column.name, {}).items():
                    seconds = row.seconds[column.name][seed]
                    lines.append(
                        f"{task.base}\t{task.labels or ALL}\t{row.name}\t{seed}"
                        f"\t{column.metric}\t{value / column.scale:.6g}"
                        f"\t{seconds:.0f}\n"
                    )
        return "".join(lines)

    def read_rows(self, table: str) -> list[Row]:
        """The rows of a `table.tsv`; of lines about one job the last counts."""
        rows = {row.name: Row(row.name) for row in self.options.rows}
        columns = {}
        for column in self.options.columns:
            task = self.options.tasks[column.of]
            labels = task.labels or ALL
            columns[f"{task.base} with {labels} labels, {column.metric}"] = (
                column
            )
        names = ("task", "labels", "start", "seed", "metric")
        for line, value in study_figure.lines_of(table, *names):
            task = "{task} with {labels} labels, {metric}".format(**line)
            column = study_figure.find(table, "task", task, columns)
            row = study_figure.find(table, "start", line["start"], rows)
            number = {"value": column.scale * value}
            row.add(column.name, line["seed"], number, "value")
        return list(rows.values())

    def draw(self, rows: list[Row]) -> list[str]:
        """The metric over the labels, of tasks with three numbers or more."""
        shown = self._with_curves(rows)
        if not shown:
            return []
        size = (4.5 * len(shown), 3.6)
        figure, axes = figures.new(1, len(shown), figsize=size)
        for axis, (of, columns) in zip(axes[0], shown.items(), strict=True):
            task, metric = of
            counts = list(columns)
            for row in rows:
                differences = [
                    summary.describe(list(row.values[c.name].values()))
                    for c in columns.values()
                ]
                axis.errorbar(
                    counts,
                    [d["mean"] for d in differences],
                    [d["sd"] for d in differences],
                    marker="o",
                    capsize=3,
                    label=row.name,
                )
            first = columns[counts[0]]
            unit = " x 100" if first.scale == 100.0 else ""
            axis.set(
                xscale="log",
                xlabel="labelled examples",
                ylabel=metric + unit,
                title=task,
            )
            axis.set_xticks(counts, [f"{n:,}" for n in counts])
            axis.legend()
        drawn = [c.name for of in shown.values() for c in of.values()]
        seeds = {len(row.values[name]) for row in rows for name in drawn}
        figures.caption(
            figure,
            f"Points: mean of n = {' to '.join(map(str, sorted(seeds)))} seeds. "
            "Bars: standard deviation of the seeds.",
            self.options.command,
        )
        return figures.save(figure, self.path("curves"))

    def _with_curves(
        self, rows: list[Row]
    ) -> dict[tuple[str, str], dict[int, ResultColumn]]:
        """(task, metric) -> labels -> column, that every row has values of."""
        found: dict[tuple[str, str], dict[int, ResultColumn]] = {}
        for column in self.options.columns:
            task = self.options.tasks[column.of]
            if task.labels.isdigit() and all(
                row.values.get(column.name) for row in rows
            ):
                of = found.setdefault((task.base, column.metric), {})
                of[int(task.labels)] = column
        return {
            of: dict(sorted(columns.items()))
            for of, columns in found.items()
            if len(columns) >= 3
        }


def has(row: Row, column: Column) -> bool:
    """Whether a row has the column's task, done or not."""
    return column.name in row.values or column.name in row.errors


def gain(row: Row, base: Row, column: Column) -> Gain | None:
    """Row less base; None where one of them has less than two seeds."""
    of = [_independent(r.values.get(column.name, {})) for r in (row, base)]
    return summary.gain(*of) if min(map(len, of)) > 1 else None


def _independent(values: dict[str, float]) -> list[float]:
    """Tunings of one pretraining share its luck: of several their means."""
    means = by_pretraining(values)
    return means if len(means) > 1 else list(values.values())


def verdict(gain: Gain | None, column: Column) -> str:
    """Whether it is better by more than two standard errors."""
    if not gain:
        return "not known"
    return summary.verdict(gain[0] if column.higher else -gain[0], gain[1])


def _in_short(options: StudyOptions, row: Row, base: Row) -> str:
    """In how many tasks a row is better, in a sentence."""
    said: dict[str, dict[str, None]] = {"better": {}, "worse": {}}
    for column in options.columns:
        word = verdict(gain(row, base, column), column)
        said.get(word, {})[options.tasks[column.of].base] = None
    better, worse = (", ".join(tasks) or "none" for tasks in said.values())
    count = len({options.tasks[c.of].base for c in options.columns})
    return (
        f"{row.name.capitalize()} is better than {base.name} by more than two "
        f"standard errors, with some number of labels, on "
        f"{len(said['better'])} of {count} tasks ({better}), and worse on "
        f"{len(said['worse'])} ({worse})."
    )


def _shown(row: Row, column: Column) -> str:
    values = list(row.values.get(column.name, {}).values())
    error = row.errors.get(column.name, NOT_RUN)
    if not has(row, column):
        return ""
    if not values:
        return error if error == NOT_RUN else f"failed: {error}"
    of = summary.describe(values)
    text = f"{of['mean']:.1f} ± {of['sd']:.1f} ({of['n']:d})"
    return text if error == NOT_RUN else f"{text}; failed: {error}"
