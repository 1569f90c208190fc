"""Recurrent memory as state of every replica, and its saved form.

Replicas keep their rows' memory between steps in variables of their own. A
checkpoint cannot hold such variables one by one (and would silently reduce
them), so before a save they are gathered into plain variables in the order of
global rows, and sliced back after a restore: another number of replicas goes
on with the same memory.
"""

import numpy as np
import tensorflow as tf

from training.batch_split import row_order
from training.objectives.contract import Memory


class RecurrentMemory:
    """L variables [b, M, D] and the valid lengths [b] on every replica.

    Args:
      strategy: of the run.
      batch_size: rows of the global batch.
      parts: accumulation parts per step.
      groups: row groups, see `rows.row_order`.
      n_layer: L.
      mem_len: M.
      d_model: D.
      dtype: of the hidden states, "bfloat16" with mixed_bfloat16.
      with_saved: also make the plain variables of `state` (training).
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        batch_size: int,
        parts: int,
        groups: int,
        n_layer: int,
        mem_len: int,
        d_model: int,
        dtype: str,
        with_saved: bool = True,
    ):
        self._strategy = strategy
        self._order = row_order(
            batch_size, strategy.num_replicas_in_sync, parts, groups
        )
        rows = self._order.shape[1]
        with strategy.scope():
            self.layers = [
                _replica_variable([rows, mem_len, d_model], dtype)
                for _ in range(n_layer)
            ]
            self.length = _replica_variable([rows], tf.int32)
        # Traced once: a strategy is slow outside a `tf.function`.
        self._clear_fn = tf.function(self._clear)
        self._read_fn = tf.function(self._read_all)
        self._write_fn = tf.function(self._write_all)
        self.state = tf.Module(name="memory")
        if with_saved:
            shape = [batch_size, mem_len, d_model]
            with tf.device("CPU:0"):
                self.state.layers = [
                    tf.Variable(tf.zeros(shape, dtype), trainable=False)
                    for _ in range(n_layer)
                ]
                self.state.length = tf.Variable(
                    tf.zeros([batch_size], tf.int32), trainable=False
                )

    # -- In replica context --

    def read(self) -> Memory:
        """This replica's memory: L tensors [b, M, D] and int32 [b]."""
        return Memory(
            tuple(v.read_value() for v in self.layers),
            self.length.read_value(),
        )

    def write(self, memory: Memory) -> None:
        """Replaces this replica's memory."""
        for variable, value in zip(self.layers, memory.layers, strict=True):
            variable.assign(tf.cast(value, variable.dtype))
        self.length.assign(memory.length)

    # -- In cross-replica context --

    def clear(self) -> None:
        """All rows start without memory."""
        self._clear_fn()

    def gather(self) -> None:
        """Replicas -> `state`, by global row. All processes must call it."""
        inverse = np.argsort(self._order.reshape(-1))
        for target, value in zip(self._saved(), self._read_fn(), strict=True):
            target.assign(tf.gather(value, inverse))

    def scatter(self) -> None:
        """`state` -> replicas; every replica takes its rows."""

        def share(context, source):
            rows = self._order[context.replica_id_in_sync_group]
            return tf.gather(source, rows)

        distribute = self._strategy.experimental_distribute_values_from_function
        self._write_fn(
            [
                distribute(lambda context, s=s: share(context, s))
                for s in self._saved()
            ]
        )

    def _saved(self) -> list[tf.Variable]:
        return [*self.state.layers, self.state.length]

    def _variables(self) -> list[tf.Variable]:
        return [*self.layers, self.length]

    def _clear(self):
        def one():
            self.length.assign(tf.zeros_like(self.length.read_value()))

        self._strategy.run(one)

    def _read_all(self):
        values = self._strategy.run(
            lambda: [tf.identity(v.read_value()) for v in self._variables()]
        )
        return [self._strategy.gather(v, axis=0) for v in values]  # [B, ...]

    def _write_all(self, values):
        def one(values):
            for variable, value in zip(self._variables(), values, strict=True):
                variable.assign(value)

        self._strategy.run(one, args=(values,))


def reset_rows(memory: Memory, reset: tf.Tensor) -> Memory:
    """Empties the memory of the rows where `reset` (bool [b]) is true."""
    keep = tf.cast(tf.logical_not(tf.cast(reset, tf.bool)), tf.int32)
    return Memory(memory.layers, memory.length * keep)


def _replica_variable(shape, dtype) -> tf.Variable:
    return tf.Variable(
        tf.zeros(shape, dtype),
        trainable=False,
        synchronization=tf.VariableSynchronization.ON_READ,
        aggregation=tf.VariableAggregation.NONE,
    )
