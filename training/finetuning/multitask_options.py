"""What run_multitask.py does beyond `FinetuneOptions`."""

import dataclasses

from common.errors import UserError

PAPER = "paper"
TASKS = "tasks"  # of a run's folder: the single-task folders
# Section 3.5 of the XLNet paper: trained jointly, then the others from there.
JOINT = ("mnli", "sst-2", "qnli", "qqp")
OTHERS = ("cola", "sts-b", "mrpc", "rte", "wnli")


@dataclasses.dataclass(frozen=True)
class MultiTaskOptions:
    """Several tasks on one encoder.

    Attributes:
      tasks: names, in the order of their numbers.
      lengths: T of each.
      weights: of the losses.
      mixing, temperature: see `data.finetuning.features.mixing.TaskOrder`.
      task_steps: task -> optimizer steps of its own training (`PAPER`).
      schedule: "" or `PAPER`.
    """

    tasks: tuple[str, ...]
    lengths: tuple[int, ...]
    weights: tuple[float, ...]
    mixing: str = "proportional"
    temperature: float = 1.0
    task_steps: dict[str, int] = dataclasses.field(default_factory=dict)
    schedule: str = ""

    def __post_init__(self) -> None:
        if not self.tasks:
            raise UserError("--task_name: wanted names of tasks")
        for name in self.tasks:
            if self.tasks.count(name) > 1:
                raise UserError(f"--task_name names {name} twice")
            if set(name) & set(":/"):
                raise UserError(f"--task_name={name} is for run_classifier.py")
        if any(not 0 < w < float("inf") for w in self.weights):
            raise UserError("--task_weights must be positive")
