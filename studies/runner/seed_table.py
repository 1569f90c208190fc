"""A table of rows, each trained with several seeds, beside a reference row.

One statistic for every such table: the median (XLNet, Table 6), mean, sample
deviation and number of the seeds that ended, and the difference to the
reference row, paired by seed, with a bootstrap interval of 95 %.
"""

import dataclasses
from collections.abc import Sequence
from statistics import fmean

from common.summary import describe
from data.finetuning.ranking.metrics import Difference, compare
from studies.runner.jobs import NOT_RUN

RESAMPLES = 10_000


@dataclasses.dataclass(frozen=True)
class Column:
    """A number that every row has.

    Attributes:
      title: over the column; "" = the name.
      digits: after the point.
      compare: whether rows may be compared: not where each has a loss of its
        own.
    """

    name: str
    title: str = ""
    higher: bool = True
    digits: int = 3
    compare: bool = True


@dataclasses.dataclass
class Row:
    """One thing that was trained several times.

    Attributes:
      values: column -> seed -> number; "1.0", "1.1" are seeds of a tuning
        that began with what seed 1 left.
      errors: column -> what went wrong, one line; "not run" yields to others.
      seconds: column -> seed -> what the job took.
      rate: targets per token it was trained on; None = not compared.
      paper: column -> what the paper has there.
    """

    name: str
    values: dict[str, dict[str, float]] = dataclasses.field(
        default_factory=dict
    )
    errors: dict[str, str] = dataclasses.field(default_factory=dict)
    rate: float | None = None
    paper: dict[str, float] = dataclasses.field(default_factory=dict)
    seconds: dict[str, dict[str, float]] = dataclasses.field(
        default_factory=dict
    )

    def add(self, column: str, seed: str, result: dict, label: str) -> None:
        """Keeps the number `label` of a job's result, or why there is none."""
        if label in result:
            self.values.setdefault(column, {})[seed] = result[label]
            took = result.get("seconds", 0.0)
            self.seconds.setdefault(column, {})[seed] = took
        else:
            why = result.get("error", NOT_RUN)
            if self.errors.get(column, NOT_RUN) == NOT_RUN:
                self.errors[column] = why


def paired(
    row: Row, reference: Row, column: str
) -> tuple[list[float], list[float]]:
    """Both rows' numbers of the seeds that both have, a pair per pretraining.

    Tunings of one pretraining are averaged: they share its luck.
    """
    ours = row.values.get(column, {})
    theirs = reference.values.get(column, {})
    both = sorted(set(ours) & set(theirs))
    return (
        by_pretraining({seed: ours[seed] for seed in both}),
        by_pretraining({seed: theirs[seed] for seed in both}),
    )


def by_pretraining(values: dict[str, float]) -> list[float]:
    """The mean of the tunings of each pretraining, by seed, sorted.

    >>> by_pretraining({"0.0": 1.0, "0.1": 3.0, "1.0": 5.0})
    [2.0, 5.0]
    """
    tunings: dict[str, list[float]] = {}
    for seed in sorted(values):
        tunings.setdefault(seed.partition(".")[0], []).append(values[seed])
    return [fmean(of) for of in tunings.values()]


def difference(row: Row, reference: Row, column: str) -> Difference | None:
    """Row minus reference over `paired` seeds; None without any."""
    ours, theirs = paired(row, reference, column)
    if not ours:
        return None
    return compare(ours, theirs, seed=0, bootstrap=RESAMPLES)


def same_rate(row: Row, reference: Row, tolerance: float = 0.02) -> bool:
    """Whether both were trained on as many targets per token, +- 2 %."""
    if row.rate is None or reference.rate is None:
        return True
    return abs(row.rate / reference.rate - 1) <= tolerance


def table(
    rows: Sequence[Row], columns: Sequence[Column], reference: str = ""
) -> str:
    """Markdown: values, difference to the reference, the paper's numbers.

    A cell is `median (mean ± deviation, n)`, the best median in bold; a
    difference is `mean [low, high]`, and is left out where the rows' target
    rates differ by more than 2 %.
    """
    base = next((row for row in rows if row.name == reference), None)
    rates = any(row.rate is not None for row in rows)
    head = ["row", *(["targets"] if rates else [])]
    blank = [""] * (len(head) - 1)
    lines = [[*head, *(c.title or c.name for c in columns)]]
    lines.append(["---"] * len(lines[0]))
    best = {c.name: _best(rows, c) for c in columns}
    for row in rows:
        rate = "" if row.rate is None else f"{row.rate:.2%}"
        cells = [_cell(row, c, best[c.name]) for c in columns]
        lines.append([row.name, *([rate] if rates else []), *cells])
        if base is not None and row is not base:
            apart = [_difference(row, base, c) for c in columns]
            if any(apart):
                lines.append([f"less {base.name}", *blank, *apart])
        paper = [_paper(row, c) for c in columns]
        if any(paper):
            lines.append(["*the paper*", *blank, *paper])
    return markdown(lines)


def markdown(lines: Sequence[Sequence[str]]) -> str:
    """A table of the cells of each line; `|` in one ends no cell."""
    escaped = ([cell.replace("|", r"\|") for cell in line] for line in lines)
    return "".join(f"| {' | '.join(line)} |\n" for line in escaped)


def _best(rows: Sequence[Row], column: Column) -> float | None:
    medians = [
        describe(list(row.values[column.name].values()))["median"]
        for row in rows
        if row.values.get(column.name)
    ]
    if not medians or not column.compare:
        return None
    return max(medians) if column.higher else min(medians)


def _cell(row: Row, column: Column, best: float | None) -> str:
    values = list(row.values.get(column.name, {}).values())
    error = row.errors.get(column.name)
    if not values:
        failed = error not in (None, NOT_RUN)
        return f"failed: {error}" if failed else error or ""
    of, digits = describe(values), column.digits
    median = f"{of['median']:.{digits}f}"
    if of["median"] == best:
        median = f"**{median}**"
    text = (
        f"{median} ({of['mean']:.{digits}f} ± {of['sd']:.{digits}f}, "
        f"{of['n']:d})"
    )
    return text if error in (None, NOT_RUN) else f"{text}; failed: {error}"


def _difference(row: Row, base: Row, column: Column) -> str:
    interval = difference(row, base, column.name) if column.compare else None
    if interval is None:
        return ""
    if not same_rate(row, base):
        return "other target rate"
    text = f"{interval.mean:+.{column.digits}f}"
    if interval.queries < 2:
        return text
    low, high = (
        f"{v:+.{column.digits}f}" for v in (interval.low, interval.high)
    )
    return f"{text} [{low}, {high}]"


def _paper(row: Row, column: Column) -> str:
    value = row.paper.get(column.name)
    return "" if value is None else f"*{value:g}*"
