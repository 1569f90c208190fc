"""What training asks of a task.

An objective knows its model, its loss and its per-row outputs; the step, the
loop, evaluations and reports know steps, replicas, memory, checkpoints.
Nothing else passes between them: another objective is a subclass of
`Objective` and a row in `common.heads`.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import tensorflow as tf
import tf_keras

from common.errors import UserError
from modeling.checkpoints.names import named_variables
from modeling.encoders.contract import EncoderConfig
from modeling.encoders.registry import require

Batch = dict[str, tf.Tensor]


class Memory(NamedTuple):
    """The recurrent memory of a batch's rows."""

    layers: tuple[tf.Tensor, ...]  # L tensors [B, M, D]
    length: tf.Tensor  # int32 [B]; so many of the last slots are valid


class LossOutput(NamedTuple):
    """Sums over a batch's rows; the loop divides once, over all replicas."""

    loss_sum: tf.Tensor  # float32 scalar, summed over whatever counts
    weight_sum: tf.Tensor  # float32 scalar, how many counted
    # name -> (sum, count), float32 scalars each
    metrics: dict[str, tuple[tf.Tensor, tf.Tensor]]
    # name -> [B, ...], one entry per row, padding rows included
    predictions: dict[str, tf.Tensor]
    # the memory for the next segment; () for none (which, unlike None,
    # `tf.nest` can map)
    new_memory: Memory | tuple[()] = ()


class Objective:
    """A head with its loss; see `training.objectives.build.build_objective`."""

    name: str
    config: EncoderConfig
    # what is written beside the weights; None = `config`
    saved_config: EncoderConfig | None = None
    # 2 when the first half of the rows is forward and the second backward, and
    # every replica must get both halves; else 1
    row_groups: int = 1
    # M slots to carry from batch to batch, whose rows start anew where the
    # batch's `reset_memory` says so; 0 = none
    memory_len: int = 0
    metric_names: tuple[str, ...] = ()  # keys of the metrics that `loss` gives
    # batch entries that are returned with the predictions
    label_fields: tuple[str, ...] = ()
    # False where the labels' loss would need a second pass of the model
    evaluates_loss: bool = True
    static_lengths: tuple[int, ...] = ()
    # T of every task, where a batch is of one of several and its `task` [B]
    # says which; see there, too
    task_lengths: tuple[int, ...] = ()
    pads_left: bool = True
    # short rows share one; see `training.step.static_lengths`
    pack: bool = False
    recompute_layers: bool = False  # trade time for memory in the backward pass
    # the model has a second stream of `num_targets` rows
    query_stream: bool = False
    # targets whose logits are alive at a time; None = all
    loss_chunk_size: int | None = None
    # metric -> its short name in a progress line
    shown_metrics: Mapping[str, str] = {"accuracy": "acc"}

    def build_model(self) -> tf_keras.Model:
        """A new model with all its variables made."""
        raise NotImplementedError

    def named_variables(self, model: tf_keras.Model) -> dict[str, tf.Variable]:
        """Canonical name -> trainable variable."""
        return named_variables(model)

    def variable_tasks(self, model: tf_keras.Model) -> dict[str, int]:
        """Canonical name -> number of the only task that has the variable.

        Those that all tasks share are left out.
        """
        del model
        return {}

    def loss(
        self,
        model: tf_keras.Model,
        batch: Batch,
        memory: Memory | None,
        training: bool,
        seed: tf.Tensor | None,
    ) -> LossOutput:
        """The loss of a batch with labels; `seed` is int32 [2]."""
        raise NotImplementedError

    def predict(self, model: tf_keras.Model, batch: Batch) -> dict[str, Any]:
        """Per-row outputs of a batch without labels."""
        raise NotImplementedError

    def pack_rows(self) -> None:
        """Short rows share one from now on, if the encoder can.

        Raises UserError: it cannot, or the objective reads a query stream.
        """
        require(self.config, "packed_rows", "--pack")
        if self.query_stream:
            raise UserError(
                "--pack: rows with a query stream are not packed; leave it out"
            )
        self.pack = True

    def derived_metrics(self, means: dict[str, float]) -> dict[str, float]:
        """More numbers, of the metrics' means over steps or a whole set."""
        del means
        return {}

    def num_targets(self, element_spec: dict[str, tf.TensorSpec]) -> int:
        """Positions of a row that have logits of the vocabulary."""
        del element_spec
        return 0

    def recompute_method(self) -> str:
        """What the backward pass keeps under the strategy in scope."""
        strategy = tf.distribute.get_strategy()
        if "TPU" in type(strategy).__name__:
            return "layer_barrier" if self.recompute_layers else "order"
        return "layer" if self.recompute_layers else "none"


def check_metrics(objective: Objective, output: LossOutput) -> None:
    """ValueError unless the loss gives the metrics that are declared."""
    if set(output.metrics) != set(objective.metric_names):
        raise ValueError(
            f"{type(objective).__name__} declares the metrics "
            f"{sorted(objective.metric_names)}, but its loss gives "
            f"{sorted(output.metrics)}: correct `metric_names`"
        )
