"""The cells of `studies.results_table`: its options, its values, its curves."""

import csv
import dataclasses

from common import checks, figures, summary
from common.errors import UserError
from studies.runner import study_file
from studies.runner.study_file import Command, command, entries_of, read_toml

OPTIONS = study_file.path_of("results_table")
STARTS = ("pretrained", "random")
ALL = 0  # labels


@dataclasses.dataclass(frozen=True)
class TaskOptions:
    """One task.

    Attributes:
      metric: of its `eval_dev.json`.
      labels: numbers of training examples; `ALL` = all.
      few: flags where not all labels are used.
      scale: what the metric is multiplied by.
    """

    command: Command
    metric: str = "accuracy"
    labels: tuple[int, ...] = (200, ALL)
    few: dict = dataclasses.field(default_factory=dict)
    scale: float = 100.0


@dataclasses.dataclass(frozen=True)
class TableOptions:
    """All of it.

    Attributes:
      seeds: how many, from 0.
      tasks: name -> what to do.
      random_init_std: deviation of the random weights; 0 = that with which
        the pretrained ones began, which may be no good for tuning alone.
      starts: of `STARTS`.
    """

    seeds: int
    tasks: dict[str, TaskOptions]
    random_init_std: float = 0.0
    starts: tuple[str, ...] = STARTS

    def __post_init__(self):
        checks.one_of(self, checks.FIELD, starts=STARTS)
        if self.seeds < 2 or not self.tasks:
            raise UserError("wanted [tasks] and `seeds` from 2 on")
        checks.within(self, ">= 0", "random_init_std", form=checks.FIELD)


def load(path: str, places: dict[str, str]) -> TableOptions:
    """Reads a TOML file of options: `[all]` holds flags of every task.

    Raises:
      UserError: no TOML, or an entry that is missing, unknown or wrong.
    """
    found = read_toml(path, places)
    with entries_of(path):
        shared, tasks = found.pop("all", {}), {}
        own = {f.name for f in dataclasses.fields(TaskOptions)} - {"command"}
        for name, entry in found.pop("tasks", {}).items():
            given = {k: v for k, v in entry.items() if k in own}
            words = {k: v for k, v in entry.items() if k not in own}
            tasks[name] = TaskOptions(command(shared | words), **given)
        if "starts" in found:
            found["starts"] = tuple(found["starts"])
        return TableOptions(tasks=tasks, **found)


@dataclasses.dataclass(frozen=True)
class Cell:
    """A task with a number of labels.

    Attributes:
      task, labels: which.
      values: start -> seed -> metric.
      errors: start -> what went wrong.
    """

    task: str
    labels: int
    values: dict[str, dict[int, float]]
    errors: dict[str, str]

    def gain(self) -> tuple[float, float] | None:
        """(pretrained less random, its standard error); None without both."""
        of = [list(self.values.get(start, {}).values()) for start in STARTS]
        return summary.gain(*of) if min(map(len, of)) > 1 else None

    def verdict(self) -> str:
        """Whether pretraining is better by more than two standard errors."""
        gain = self.gain()
        return summary.verdict(*gain) if gain else "not known"


def read_cells(path: str, options: TableOptions) -> list[Cell]:
    """The cells of a table of values, in the order of its lines.

    Args:
      path: tab-separated, with the columns task, labels, start, seed, value.
      options: the tasks, for what a metric is multiplied by.
    """
    cells: dict[tuple[str, int], Cell] = {}
    with open(path, encoding="utf-8", newline="") as f:
        for line in csv.DictReader(f, delimiter="\t"):
            labels = ALL if line["labels"] == "all" else int(line["labels"])
            name = line["task"]
            new = Cell(name, labels, {s: {} for s in options.starts}, {})
            cell = cells.setdefault((name, labels), new)
            value = options.tasks[name].scale * float(line["value"])
            cell.values[line["start"]][int(line["seed"])] = value
    return list(cells.values())


def draw(cells: list[Cell], options: TableOptions, stem: str) -> list[str]:
    """The metric over the labels, of tasks with three numbers of them or more."""
    names = [
        c.task for c in cells if c.labels != ALL and all(c.values.values())
    ]
    shown = [t for t in dict.fromkeys(names) if names.count(t) >= 3]
    if not shown:
        return []
    figure, axes = figures.new(1, len(shown), figsize=(4.5 * len(shown), 3.6))
    for axis, name in zip(axes[0], shown, strict=True):
        own = sorted(
            (c for c in cells if c.task == name and c.labels != ALL),
            key=lambda c: c.labels,
        )
        for start in options.starts:
            found = [
                summary.describe(list(c.values[start].values())) for c in own
            ]
            axis.errorbar(
                [c.labels for c in own],
                [d["mean"] for d in found],
                [d["sd"] for d in found],
                marker="o",
                capsize=3,
                label=start,
            )
        of = options.tasks[name]
        unit = " x 100" if of.scale == 100.0 else ""
        axis.set(
            xscale="log",
            xlabel="labelled examples",
            ylabel=of.metric + unit,
            title=name,
        )
        counts = [c.labels for c in own]
        axis.set_xticks(counts, [f"{n:,}" for n in counts])
        axis.legend()
    drawn = [c for c in cells if c.task in shown and c.labels != ALL]
    seeds = {len(v) for c in drawn for v in c.values.values()}
    figures.caption(
        figure,
        f"Points: mean of n = {' to '.join(map(str, sorted(seeds)))} seeds. "
        "Bars: standard deviation of the seeds.",
        "python -m studies.results_table",
    )
    return figures.save(figure, stem)
