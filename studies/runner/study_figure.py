"""The picture of a study: differences with intervals, a row per variant."""

import csv
import os
import re
from collections.abc import Iterator, Sequence
from typing import TypeVar

from common import figures, files
from common.errors import UserError
from data.finetuning.ranking.metrics import Difference
from studies.runner.seed_table import Row, difference, same_rate
from studies.runner.study_file import StudyOptions

_FLAT = 0.1  # a column whose means all lie so near 0 says nothing
Points = dict[str, dict[str, Difference]]
T = TypeVar("T")


def points(options: StudyOptions, rows: Sequence[Row]) -> Points:
    """`differences` of the columns in which a row differs by `_FLAT`."""
    return _without_flat(differences(options, rows))


def _without_flat(found: Points) -> Points:
    return {
        column: of
        for column, of in found.items()
        if any(abs(apart.mean) >= _FLAT for apart in of.values())
    }


def differences(options: StudyOptions, rows: Sequence[Row]) -> Points:
    """Column -> row -> difference to `figure_base`, paired by seed.

    As in the table, rows of another rate of targets are not compared.
    """
    base = base_of(options, rows)
    column_points: Points = {}
    for column in options.columns:
        if not column.compare:
            continue
        of = {
            row.name: apart
            for row in rows
            if row is not base
            and same_rate(row, base)
            and (apart := difference(row, base, column.name))
        }
        if of:
            column_points[column.name] = of
    return column_points


def base_of(options: StudyOptions, rows: Sequence[Row]) -> Row:
    """The row that the others are compared with."""
    keys = [row.key for row in options.rows]
    return rows[keys.index(options.figure_base)]


def order_of(options: StudyOptions, column_points: Points) -> list[str]:
    """Rows, the one that is best by its mean over the columns first."""
    signs = {c.name: 1 if c.higher else -1 for c in options.columns}
    values: dict[str, list[float]] = {}
    for column, of in column_points.items():
        for name, apart in of.items():
            values.setdefault(name, []).append(signs[column] * apart.mean)
    return sorted(values, key=lambda n: -sum(values[n]) / len(values[n]))


def draw(stem: str, options: StudyOptions, rows: Sequence[Row]) -> list[str]:
    """Writes the picture; its files.

    Args:
      stem: path without its ending.
      options: columns and the row that others are compared with.
      rows: with their values; the paper's are drawn beside them.
    """
    found = differences(options, rows) if options.figure_base else {}
    column_points = _without_flat(found)
    if not column_points:
        return []
    base, names = base_of(options, rows), order_of(options, column_points)
    figure, axes = figures.new(
        1,
        len(column_points),
        figsize=(2.5 + 2.5 * len(column_points), 1.6 + 0.32 * len(names)),
    )
    for axis, (column, of) in zip(axes[0], column_points.items(), strict=True):
        _draw_column(axis, column, of, names)
        _draw_paper(axis, column, rows, base, names)
        axis.set_yticks(range(len(names)), names if axis is axes[0][0] else [])
        axis.set_ylim(len(names) - 0.5, -0.5)
    pairs = [d.queries for of in column_points.values() for d in of.values()]
    seeds = " to ".join(map(str, sorted({min(pairs), max(pairs)})))
    flat = [column for column in found if column not in column_points]
    shown = any(axis.get_legend_handles_labels()[1] for axis in axes[0])
    figures.caption(
        figure,
        f"Difference to row {base.name}, n = {seeds} seeds. Points: mean, paired "
        "by seed.",
        *([f"Below {_FLAT:g} in all rows: {', '.join(flat)}."] if flat else []),
        "Bars: 95 % bootstrap interval."
        + (" Diamonds: the paper's difference." if shown else ""),
        options.command,
    )
    return figures.save(figure, stem)


def _draw_column(axis, column: str, of: dict[str, Difference], names) -> None:
    at = [names.index(name) for name in of]
    means = [apart.mean for apart in of.values()]
    ends = [
        [apart.mean - apart.low for apart in of.values()],
        [apart.high - apart.mean for apart in of.values()],
    ]
    axis.errorbar(means, at, xerr=ends, fmt="o", capsize=3, color="#1f77b4")
    axis.axvline(0, color="black", linewidth=0.8)
    axis.grid(axis="y", linewidth=0.3)
    axis.set_title(column)
    axis.set_xlabel("difference")


def _draw_paper(axis, column: str, rows, base: Row, names) -> None:
    if column not in base.paper:
        return
    at = {
        names.index(row.name): row.paper[column] - base.paper[column]
        for row in rows
        if row.name in names and column in row.paper
    }
    axis.plot(
        list(at.values()),
        list(at),
        "D",
        color="#d95f02",
        markerfacecolor="none",
        label="the paper",
    )


def lines_of(table: str, *names: str) -> Iterator[tuple[dict, float]]:
    """The lines of a `table.tsv` and their values.

    Raises:
      UserError: it has not these columns, or a value is no number.
    """
    with open(table, encoding="utf-8", newline="") as f:
        reader = csv.DictReader(f, delimiter="\t")
        if missing := {*names, "value"} - set(reader.fieldnames or ()):
            raise UserError(
                f"{table}: wanted the table.tsv of this study, found no column "
                f"{min(missing)!r}; check --study and --values"
            )
        for line in reader:
            try:
                yield line, float(line["value"])
            except (TypeError, ValueError) as e:
                raise UserError(
                    f"{table}:{reader.line_num}: wanted a number under "
                    f"'value', found {line['value']!r}"
                ) from e


def find(table: str, what: str, name: str, known: dict[str, T]) -> T:
    """That of a name in a table; UserError: the study has none."""
    if name not in known:
        raise UserError(
            f"{table}: the study has no {what} {name!r}; there are "
            f"{', '.join(known)}"
        )
    return known[name]


def read_rows(table: str, options: StudyOptions) -> list[Row]:
    """Rows of a .tsv, their rates of targets of the .md beside it.

    Raises:
      UserError: it is no table of the study.
    """
    rows = {
        row.name: Row(row.name, paper=dict(row.paper)) for row in options.rows
    }
    for line, value in lines_of(table, "row", "column", "seed"):
        row = find(table, "row", line["row"], rows)
        row.values.setdefault(line["column"], {})[line["seed"]] = value
    report = f"{os.path.splitext(table)[0]}.md"
    if not files.exists(report):
        raise UserError(
            f"{report} is missing: wanted the table.md of the same run beside "
            f"{os.path.basename(table)}; it has the rates of targets"
        )
    with open(report, encoding="utf-8") as f:
        for name, rate in re.findall(
            r"^\| ([^|]+) \| ([\d.]+)% ", f.read(), re.M
        ):
            find(report, "row", name, rows).rate = float(rate) / 100
    return list(rows.values())
