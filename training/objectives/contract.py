"""What a training loop asks of a task.

An objective knows its model, its loss and its per-row outputs; the loop knows
steps, replicas, memory, checkpoints. Nothing else passes between them.
"""

import dataclasses
from typing import Any, Protocol

import tensorflow as tf
import tf_keras

from modeling.encoders.contract import EncoderConfig

Batch = dict[str, tf.Tensor]


@dataclasses.dataclass(frozen=True)
class Memory:
    """The recurrent memory of a batch's rows.

    Attributes:
      layers: L tensors [B, M, D].
      length: int32 [B]; so many of the last slots are valid.
    """

    layers: tuple[tf.Tensor, ...]
    length: tf.Tensor


@dataclasses.dataclass(frozen=True)
class LossOutput:
    """Sums over the rows of a batch; the loop divides once, over all replicas.

    Attributes:
      loss_sum: float32 scalar, summed over whatever counts.
      weight_sum: float32 scalar, how many counted.
      metrics: name -> (sum, count), float32 scalars each.
      predictions: name -> [B, ...], one entry per row, padding rows included.
      new_memory: the memory for the next segment, or None.
    """

    loss_sum: tf.Tensor
    weight_sum: tf.Tensor
    metrics: dict[str, tuple[tf.Tensor, tf.Tensor]]
    predictions: dict[str, tf.Tensor]
    new_memory: Memory | None = None


class Objective(Protocol):
    """One head with its loss. See `training.objectives.build.build_objective`.

    Attributes:
      name: key of `common.heads.HEADS`.
      config: the architecture.
      row_groups: 2 when the first half of the rows is forward and the second
        backward, and every replica must get both halves; else 1.
      memory_len: M slots to carry from batch to batch; 0 = none.
      label_fields: batch entries that are returned with the predictions.
    """

    name: str
    config: EncoderConfig
    row_groups: int
    memory_len: int
    label_fields: tuple[str, ...]

    def build_model(self) -> tf_keras.Model:
        """A new model with all its variables made."""
        ...

    def named_variables(self, model: tf_keras.Model) -> dict[str, tf.Variable]:
        """Canonical name -> trainable variable."""
        ...

    def loss(
        self,
        model: tf_keras.Model,
        batch: Batch,
        memory: Memory | None,
        training: bool,
        seed: tf.Tensor | None,
    ) -> LossOutput:
        """The loss of a batch with labels; `seed` is int32 [2]."""
        ...

    def predict(self, model: tf_keras.Model, batch: Batch) -> dict[str, Any]:
        """Per-row outputs of a batch without labels."""
        ...
