"""What run_multitask.py does beyond `FinetuneOptions`."""

import dataclasses

from common.errors import UserError
from common.settings import check, setting

PAPER = "paper"
TASKS = "tasks"  # of a run's folder: the single-task folders
TOGETHER = "joint"  # of a schedule's folder: the run on several tasks
# Section 3.5 of the XLNet paper: trained jointly, then the others from there.
JOINT = ("mnli", "sst-2", "qnli", "qqp")
OTHERS = ("cola", "sts-b", "mrpc", "rte", "wnli")


@dataclasses.dataclass(frozen=True)
class MultiTaskOptions:
    """Several tasks on one encoder.

    Attributes:
      tasks: names, in the order of their numbers.
      lengths: T of each.
      task_steps: task -> optimizer steps of its own training (`PAPER`).
    """

    tasks: tuple[str, ...]
    lengths: tuple[int, ...]
    weights: tuple[float, ...]
    mixing: str = setting(
        "proportional",
        "How often a task has its turn: as its examples, their square root, "
        "all alike, or examples to the power of 1 / --mixing_temperature.",
        choices=("proportional", "sqrt", "uniform", "temperature"),
    )
    temperature: float = setting(
        1.0,
        "Of --mixing=temperature; 1 = proportional.",
        flag="mixing_temperature",
    )
    task_steps: dict[str, int] = dataclasses.field(default_factory=dict)
    schedule: str = setting(
        "",
        "paper: mnli, sst-2, qnli and qqp together, then cola, sts-b, mrpc, "
        "rte and wnli from these weights, the four large ones alone, and all "
        "test sets as one submission.",
        choices=("", PAPER),
    )

    def __post_init__(self) -> None:
        check(self)
        if not self.tasks:
            raise UserError("--task_name: wanted names of tasks")
        for name in self.tasks:
            if self.tasks.count(name) > 1:
                raise UserError(f"--task_name names {name} twice")
            if set(name) & set(":/"):
                raise UserError(f"--task_name={name} is for run_classifier.py")
        if any(not 0 < w < float("inf") for w in self.weights):
            raise UserError("--task_weights must be positive")
