"""Recurrent memory as state of every replica, and its saved form.

Replicas keep their rows' memory between steps in variables of their own. A
checkpoint cannot hold such variables one by one (and would silently reduce
them), so before a save they are gathered into plain variables in the order of
global rows, and sliced back after a restore: another number of replicas goes
on with the same memory.
"""

import numpy as np
import tensorflow as tf

from training.batch_split import BatchSplit
from training.objectives.contract import Memory, Objective


class RecurrentMemory:
    """L variables [b, M, D] and the valid lengths [b] on every replica.

    Args:
      objective: with `memory_len` M.
      model: its model; memory has the dtype of its hidden states.
      strategy: of the run.
      split: of the global batch, B rows.
      with_saved: also make the plain variables of `state` (training).
    """

    def __init__(
        self,
        objective: Objective,
        model,
        strategy: tf.distribute.Strategy,
        split: BatchSplit,
        with_saved: bool = False,
    ):
        self._strategy = strategy
        self._order = split.order()  # [replicas, b]
        config, dtype = objective.config, model.compute_dtype

        def make(rows, **options) -> Memory:
            def zeros(shape, dtype):
                value = tf.zeros(shape, dtype)
                return tf.Variable(value, trainable=False, **options)

            shape = [rows, objective.memory_len, config.d_model]
            layers = (zeros(shape, dtype) for _ in range(config.n_layer))
            return Memory(tuple(layers), zeros([rows], tf.int32))

        with strategy.scope():
            self._variables = make(
                split.replica_rows,
                synchronization=tf.VariableSynchronization.ON_READ,
                aggregation=tf.VariableAggregation.NONE,
            )
        # Traced once: a strategy is slow outside a `tf.function`.
        self._clear_fn = tf.function(self._clear, autograph=False)
        self._read_fn = tf.function(self._read_all, autograph=False)
        self._write_fn = tf.function(self._write_all, autograph=False)
        self.state = tf.Module(name="memory")
        if with_saved:
            with tf.device("CPU:0"):
                self._saved = make(split.batch_size)
            # These names are those of the checkpoint.
            self.state.layers = list(self._saved.layers)
            self.state.length = self._saved.length

    # -- In replica context --

    def read(self) -> Memory:
        """This replica's memory: L tensors [b, M, D] and int32 [b]."""
        return tf.nest.map_structure(lambda v: v.read_value(), self._variables)

    def write(self, memory: Memory) -> None:
        """Replaces this replica's memory."""
        tf.nest.map_structure(
            lambda v, x: v.assign(tf.cast(x, v.dtype)), self._variables, memory
        )

    # -- In cross-replica context --

    def clear(self) -> None:
        """All rows start without memory."""
        self._clear_fn()

    def gather(self) -> None:
        """Replicas -> `state`, by global row. All processes must call it."""
        inverse = np.argsort(self._order.reshape(-1))  # [B]
        tf.nest.map_structure(
            lambda saved, x: saved.assign(tf.gather(x, inverse)),
            self._saved,
            self._read_fn(),
        )

    def scatter(self) -> None:
        """`state` -> replicas; every replica takes its rows."""

        def share(saved):
            def rows_of(context):
                rows = self._order[context.replica_id_in_sync_group]  # [b]
                return tf.gather(saved, rows)

            return self._strategy.experimental_distribute_values_from_function(
                rows_of
            )

        self._write_fn(tf.nest.map_structure(share, self._saved))

    def _clear(self):
        def one():
            length = self._variables.length
            length.assign(tf.zeros_like(length.read_value()))

        self._strategy.run(one)

    def _read_all(self) -> Memory:
        values = self._strategy.run(self.read)
        return tf.nest.map_structure(
            lambda x: self._strategy.gather(x, axis=0), values
        )  # [B, ...]

    def _write_all(self, values: Memory):
        self._strategy.run(self.write, args=(values,))


def reset_rows(memory: Memory, reset: tf.Tensor) -> Memory:
    """Empties the memory of the rows where `reset` (bool [b]) is true."""
    keep = tf.cast(tf.logical_not(tf.cast(reset, tf.bool)), tf.int32)  # [b]
    return memory._replace(length=memory.length * keep)
