"""Which rows of a global batch a replica and its micro-batches get.

The reader's order is by *global row*: with bi_data the first half is forward
and the second backward. Every micro-batch must hold forward rows first,
backward rows second, whatever the replicas:

    8 rows, 2 groups, 2 replicas:  replica 0: 0 1 4 5   replica 1: 2 3 6 7
    in 2 accumulation steps each:  replica 0: 0 4 | 1 5 replica 1: 2 6 | 3 7
"""

import dataclasses
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from common.errors import UserError


@dataclasses.dataclass(frozen=True)
class BatchSplit:
    """How a global batch divides; UserError where it does not."""

    batch_size: int
    replicas: int = 1
    accumulation_steps: int = 1  # micro-batches of each replica's share
    groups: int = 1  # 2 with bi_data, else 1
    flag: str = "train_batch_size"  # what gives it, for messages

    def __post_init__(self):
        unit = self.replicas * self.accumulation_steps * self.groups
        if self.batch_size % unit:
            whole = max(unit, self.batch_size // unit * unit)
            raise UserError(
                f"--{self.flag}={self.batch_size} must divide by "
                f"{self.replicas} replica(s) x {self.accumulation_steps} "
                "accumulation step(s)"
                + (" x 2 directions" if self.groups == 2 else "")
                + f" = {unit}; take {whole}"
            )

    @property
    def replica_rows(self) -> int:
        """Rows of a replica."""
        return self.batch_size // self.replicas

    @property
    def micro_batch_rows(self) -> int:
        """Rows of one accumulation step of a replica."""
        return self.replica_rows // self.accumulation_steps

    def order(self) -> np.ndarray:
        """Global rows of every replica as it takes them, [replicas, b]."""
        rows = np.arange(self.batch_size).reshape(
            self.groups, self.replicas, self.accumulation_steps, -1
        )  # [groups, replicas, steps, rows of a group]
        return rows.transpose(1, 2, 0, 3).reshape(self.replicas, -1)


def distribute(
    strategy: tf.distribute.Strategy,
    input_fn: Callable[[dict], tf.data.Dataset],
    split: BatchSplit,
    start_step: int = 0,
):
    """The global batches of `input_fn`, split among the replicas.

    Every process reads its replicas' rows alone where `input_fn` can, else
    whole batches: rows depend on neither replicas nor processes. A last batch
    that is too small is filled with zero rows (`example_weight` 0). Returns a
    `tf.distribute.DistributedDataset`, or the plain dataset where one CPU takes
    it, and the element spec of the global batches.

    Args:
      input_fn: `params -> tf.data.Dataset`; `params["batch_size"]` is the
        global batch, `params["start_step"]` the first batch. With
        `params["rows"]`, global rows, it may give batches of those only, in
        that order; the static size of its batches says whether it did.
    """
    order, batch_size = split.order(), split.batch_size
    spec = {}
    # Nothing here is left to tf.data to tune, and the end of an iterator can
    # wait for its tuner, which sleeps for up to a minute.
    options = tf.data.Options()
    options.autotune.enabled = False

    def make(context: tf.distribute.InputContext) -> tf.data.Dataset:
        local = len(order) // context.num_input_pipelines
        first = context.input_pipeline_id * local
        mine = order[first : first + local]  # [local, b]
        params = {"batch_size": batch_size, "start_step": start_step}
        dataset, mine = _read(input_fn, params, mine, options)
        spec.update(dataset.element_spec)
        whole = next(iter(dataset.element_spec.values())).shape[0]
        if local == 1 and np.array_equal(mine[0], np.arange(whole)):
            return dataset.prefetch(2)

        # [local, b, ...] -> local elements, taken by the replicas in order.
        return (
            dataset.map(lambda b: _take(b, mine)).unbatch().prefetch(2 * local)
        )

    if not _all_cpus(strategy):
        return strategy.distribute_datasets_from_function(make), spec
    if isinstance(strategy, tf.distribute.OneDeviceStrategy):
        return make(tf.distribute.InputContext()), spec
    # There is no device to copy to ahead: every replica has a reader, and not
    # the iterators that `tf.distribute` makes, which have tuners of their own.
    return strategy.distribute_datasets_from_function(
        make,
        tf.distribute.InputOptions(
            experimental_fetch_to_device=False,
            experimental_replication_mode=(
                tf.distribute.InputReplicationMode.PER_REPLICA
            ),
        ),
    ), spec


def _read(input_fn, params: dict, mine: np.ndarray, options):
    """(batches that hold some global rows, where in them those rows are)."""
    some = mine.size < params["batch_size"]
    if some:
        params["rows"] = tuple(mine.reshape(-1).tolist())
    dataset = input_fn(params).with_options(options)
    sizes = {x.shape[0] for x in dataset.element_spec.values()}
    if some and sizes == {mine.size}:
        return dataset, np.arange(mine.size).reshape(mine.shape)
    size = params["batch_size"]
    return dataset.map(lambda batch: fill(batch, size)), mine


def _all_cpus(strategy: tf.distribute.Strategy) -> bool:
    """The replicas are CPUs of this process."""
    kinds = (tf.distribute.OneDeviceStrategy, tf.distribute.MirroredStrategy)
    if type(strategy) not in kinds:
        return False
    devices = map(tf.DeviceSpec.from_string, strategy.extended.worker_devices)
    return all(device.device_type == "CPU" for device in devices)


@tf.autograph.experimental.do_not_convert
def _take(batch: dict, rows: np.ndarray) -> dict:
    """Rows [n, b] of every array [B, ...]: [n, b, ...]."""
    return {k: tf.gather(v, tf.constant(rows)) for k, v in batch.items()}


@tf.autograph.experimental.do_not_convert
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
