"""Which rows of a global batch a replica and an accumulation part get.

The reader's order is by *global row*: with bi_data the first half is forward
and the second backward. Every part must hold forward rows first, backward
rows second, whatever the replicas:

    8 rows, 2 groups, 2 replicas:  replica 0: 0 1 4 5   replica 1: 2 3 6 7
    the same in 2 parts each:      replica 0: 0 4 | 1 5 replica 1: 2 6 | 3 7
"""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from common.errors import UserError


def row_order(
    batch_size: int, num_replicas: int, parts: int, groups: int
) -> np.ndarray:
    """Global rows of every replica, in the order it takes them.

    Args:
      batch_size: rows of the global batch.
      num_replicas: replicas in sync.
      parts: accumulation parts of each replica's share.
      groups: 2 with bi_data, else 1.

    Returns:
      int64 [num_replicas, batch_size / num_replicas].

    Raises:
      UserError: the batch does not divide.
    """
    unit = num_replicas * parts * groups
    if batch_size % unit:
        raise UserError(
            f"the batch of {batch_size} rows must divide by {num_replicas} "
            f"replica(s) x {parts} accumulation part(s)"
            + (" x 2 directions" if groups == 2 else "")
            + f" = {unit}; take {max(unit, batch_size // unit * unit)}"
        )
    rows = np.arange(batch_size).reshape(groups, num_replicas, parts, -1)
    return rows.transpose(1, 2, 0, 3).reshape(num_replicas, -1)


def distribute(
    strategy: tf.distribute.Strategy,
    input_fn: Callable[[dict], tf.data.Dataset],
    batch_size: int,
    groups: int = 1,
    parts: int = 1,
    start_step: int = 0,
):
    """The global batches of `input_fn`, split among the replicas.

    Every process reads the global batches and keeps its replicas' rows, so
    rows depend on neither replicas nor processes. A last batch that is too
    small is filled with zero rows (`example_weight` 0).

    Args:
      strategy: where the batches go.
      input_fn: `params -> tf.data.Dataset`; `params["batch_size"]` is the
        global batch, `params["start_step"]` the first batch.
      batch_size: rows of the global batch.
      groups: row groups, see `row_order`.
      parts: accumulation parts.
      start_step: number of the first batch.

    Returns:
      (a `tf.distribute.DistributedDataset`, the element spec of the global
      batches).
    """
    order = row_order(batch_size, strategy.num_replicas_in_sync, parts, groups)

    spec = {}

    def make(context: tf.distribute.InputContext) -> tf.data.Dataset:
        params = {"batch_size": batch_size, "start_step": start_step}
        dataset = input_fn(params)
        dataset = dataset.map(lambda batch: fill(batch, batch_size))
        spec.update(dataset.element_spec)
        local = len(order) // context.num_input_pipelines
        first = context.input_pipeline_id * local
        mine = order[first : first + local]
        if np.array_equal(mine.reshape(-1), np.arange(batch_size)):
            if local == 1:
                return dataset.prefetch(2)

        def split(batch):
            rows = tf.constant(mine)
            return {k: tf.gather(v, rows) for k, v in batch.items()}

        # [local, b, ...] -> local elements, taken by the replicas in order.
        return dataset.map(split).unbatch().prefetch(2 * local)

    return strategy.distribute_datasets_from_function(make), spec


def fill(batch: dict, batch_size: int) -> dict:
    """Pads every array with zero rows up to `batch_size`; static shape."""

    def one(x: tf.Tensor) -> tf.Tensor:
        if x.shape[0] == batch_size:
            return x
        missing = batch_size - tf.shape(x)[0]
        padding = [[0, missing]] + [[0, 0]] * (x.shape.rank - 1)
        x = tf.pad(x, padding)
        return tf.ensure_shape(x, [batch_size, *x.shape[1:]])

    return {name: one(x) for name, x in batch.items()}
