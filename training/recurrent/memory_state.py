"""Recurrent memory as state of every replica, and its saved form.

Replicas keep their rows' memory between steps in variables of their own. A
TensorFlow checkpoint would silently reduce such variables, so every process
takes the rows of its replicas to the host, by global row, and
`training.checkpointing.memory_files` keeps them: another number of replicas or processes
goes on with the same memory.
"""

import numpy as np
import tensorflow as tf

from training.checkpointing.memory_files import HostRows
from training.objectives.contract import Memory, Objective
from training.step.batch_split import BatchSplit


class RecurrentMemory:
    """L variables [b, M, D] and the valid lengths [b] on every replica.

    Memory has the dtype of the model's hidden states; `split` is of the global
    batch, B rows.
    """

    def __init__(
        self,
        objective: Objective,
        model,
        strategy: tf.distribute.Strategy,
        split: BatchSplit,
    ):
        self._strategy = strategy
        self.rows = split.batch_size
        self._order = split.order()  # [replicas, b]
        config, dtype = objective.config, model.compute_dtype

        self.shape = (config.n_layer, objective.memory_len, config.d_model)

        def make(shape, dtype) -> tf.Variable:
            return tf.Variable(
                tf.zeros(shape, dtype),
                trainable=False,
                synchronization=tf.VariableSynchronization.ON_READ,
                aggregation=tf.VariableAggregation.NONE,
            )

        rows = split.replica_rows
        with strategy.scope():
            self._variables = Memory(
                tuple(
                    make([rows, *self.shape[1:]], dtype)
                    for _ in range(config.n_layer)
                ),
                make([rows], tf.int32),
            )
        # Traced once: a strategy is slow outside a `tf.function`.
        self._clear_fn = tf.function(self._clear, autograph=False)
        self._read_fn = tf.function(self._read_all, autograph=False)
        self._write_fn = tf.function(self._write_all, autograph=False)

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

    def own_rows(self) -> np.ndarray:
        """Global rows of this process's replicas, in the replicas' order."""
        replicas = []

        def note(context):
            replicas.append(context.replica_id_in_sync_group)
            return tf.zeros([])

        self._strategy.experimental_distribute_values_from_function(note)
        return self._order[replicas].reshape(-1)

    def to_host(self) -> HostRows:
        """A copy of this process's rows."""
        rows = self.own_rows()
        order = np.argsort(rows)
        local = self._strategy.experimental_local_results

        def copy(value) -> np.ndarray:
            return np.concatenate([x.numpy() for x in local(value)])[order]

        memory = self._read_fn()
        layers = [copy(layer) for layer in memory.layers]
        return HostRows(rows[order], layers, copy(memory.length))

    def from_host(self, rows: HostRows) -> None:
        """Replicas take what they own of `rows`, which may be more."""

        def share(values):
            def rows_of(context):
                mine = self._order[context.replica_id_in_sync_group]  # [b]
                return tf.constant(values[np.searchsorted(rows.numbers, mine)])

            return self._strategy.experimental_distribute_values_from_function(
                rows_of
            )

        self._write_fn(
            Memory(tuple(map(share, rows.layers)), share(rows.length))
        )

    def _clear(self):
        def one():
            length = self._variables.length
            length.assign(tf.zeros_like(length.read_value()))

        self._strategy.run(one)

    def _read_all(self) -> Memory:
        return self._strategy.run(self.read)

    def _write_all(self, values: Memory):
        self._strategy.run(self.write, args=(values,))


def reset_rows(memory: Memory, reset: tf.Tensor) -> Memory:
    """Empties the memory of the rows where `reset` (bool [b]) is true."""
    keep = tf.cast(tf.logical_not(tf.cast(reset, tf.bool)), tf.int32)  # [b]
    return memory._replace(length=memory.length * keep)
