"""Several tasks, one encoder: a batch is of one task and has its loss.

The objectives of the tasks are those of single-task runs, on models that share
their encoder, so that a step on a batch is the single-task step on it; the
heads of the other tasks rest (`training.optim.optimizer`).
"""

import dataclasses
from collections.abc import Sequence

import tensorflow as tf

from modeling.checkpoints import hf
from modeling.encoders.contract import EncoderConfig
from modeling.heads.multi_task import MultiTaskModel
from training.objectives.contract import LossOutput, Objective
from training.objectives.finetuning import FinetuneObjective


@dataclasses.dataclass(frozen=True)
class TaskPart:
    """One of the tasks: its objective alone, and the weight of its loss."""

    name: str
    objective: FinetuneObjective
    length: int
    weight: float = 1.0


class MultiTaskObjective(Objective):
    """The losses of several tasks by turns.

    Batches hold `task` int32 [B], the same number in every row, and `label_ids`
    float32 [B] whatever the task (`data.finetuning.features.mixing`).
    """

    name = "multi_task"
    metric_names = ("task",)
    shown_metrics: dict[str, str] = {}

    def __init__(
        self,
        config: EncoderConfig,
        parts: Sequence[TaskPart],
        recompute_layers: bool = False,
    ):
        self.parts = tuple(parts)
        first = self.parts[0].objective
        self.saved_config = hf.without_head(config)
        self.config = first.config
        self.pads_left = first.pads_left
        self.recompute_layers = recompute_layers
        self.task_lengths = tuple(part.length for part in self.parts)

    def build_model(self) -> MultiTaskModel:
        """The encoder with all heads, all variables made."""
        return MultiTaskModel(
            self.config,
            {
                part.name: {"head": part.objective.name}
                | part.objective.head_options
                for part in self.parts
            },
            recompute=self.recompute_method(),
        )

    def variable_tasks(self, model: MultiTaskModel) -> dict[str, int]:
        """See `Objective`: the heads with their poolers."""
        numbers = {part.name: i for i, part in enumerate(self.parts)}
        return {
            name: numbers[task]
            for task, names in model.task_variable_names().items()
            for name in names
        }

    def loss(self, model, batch, memory, training, seed):
        """The loss of the batch's task; `task` is a number of Python's."""
        number = batch["task"]
        part = self.parts[number]
        labels = batch["label_ids"]
        if part.objective.name == "classification":
            labels = tf.cast(labels, tf.int32)
        output = part.objective.loss(
            model.heads[part.name],
            batch | {"label_ids": labels},
            memory,
            training,
            seed,
        )
        # Which task a step was of: the log's loss is that task's.
        which = (tf.constant(float(number)), tf.constant(1.0))
        return LossOutput(
            part.weight * output.loss_sum,
            output.weight_sum,
            {"task": which},
            {},
        )
