"""A search over hyper-parameters per row and task of a study.

The paper gives BERT "the same hyper-parameter search space as XLNet" (section
3.7): every row is tuned at every point of one grid, and its best point counts.
"""

import dataclasses
from typing import Any

from common.summary import describe
from studies.runner.seed_table import Column
from studies.runner.study_rows import RowOptions


@dataclasses.dataclass(frozen=True)
class Searched:
    """What one row's search in one task found.

    Attributes:
      found: label of a point -> numbers of its seeds; failed ones are not in.
    """

    row: str
    task: str
    column: Column
    found: dict[str, list[float]]

    @property
    def best(self) -> str:
        """The point with the best median; of equal ones the grid's first.

        Points with fewer seeds than others (a run under way, or failures) take
        part only where no point has more: luck is larger with few.
        """
        most = max(map(len, self.found.values()))
        medians = {k: _median(v) for k, v in self.found.items()}
        full = [k for k, v in self.found.items() if len(v) == most]
        if not most:
            return full[0]
        sign = 1 if self.column.higher else -1
        return max(full, key=lambda k: sign * medians[k])

    def line(self) -> str:
        """`row, task (column): point median, ...`, the best in bold."""
        shown = []
        for label, values in self.found.items():
            number = "not run"
            if values:
                number = f"{_median(values):.{self.column.digits}f}"
                number += f" ({len(values)})"
            text = f"{label} {number}"
            shown.append(f"**{text}**" if label == self.best else text)
        return f"{self.row}, {self.task} ({self.column.name}): " + "; ".join(
            shown
        )


def _median(values: list[float]) -> float:
    return describe(values)["median"] if values else float("nan")


def label(point: dict[str, Any]) -> str:
    """`learning_rate=0.0003,train_steps=200`; "" of no search."""
    return ",".join(f"{flag}={value}" for flag, value in point.items())


def place(
    row: RowOptions, seed: int, task: str, point: str, finetune_seed: int
) -> str:
    """Folder of a tuning: below its pretraining's, where it has one."""
    text = ",".join(filter(None, (task, point)))
    if row.start:
        return f"{text}/{row.key}-{finetune_seed}"
    return f"{row.key}-{seed}/{text}-{finetune_seed}"
