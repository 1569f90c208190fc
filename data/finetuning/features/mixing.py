"""Which task step s is of: a pure function of (seed, s).

Steps come in blocks in which every task has its exact share, in an order of
the block's own. A task's n-th step takes its n-th batch, which is the n-th
batch of a run on that task alone. So a run that goes on at step s needs
neither a replay nor a state.
"""

import dataclasses
import functools
from collections.abc import Iterator, Sequence

import numpy as np

from common.checks import one_of
from common.contract.schema import LENGTH_FIELDS
from common.errors import UserError
from data.finetuning.features import batches, pipeline
from data.finetuning.features.table import FeatureTable

# Of the examples, by what a task's share goes.
_POWERS = {"proportional": 1.0, "sqrt": 0.5, "uniform": 0.0}
MIXINGS = (*_POWERS, "temperature")
# Steps in which every task has its exact share.
BLOCK = 1000


@dataclasses.dataclass(frozen=True)
class TaskOrder:
    """The endless order of tasks."""

    sizes: tuple[int, ...]
    # "proportional" to the examples (the concatenation of the sets), to their
    # square root, "uniform", or to their power of 1 / temperature
    mixing: str = "proportional"
    temperature: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        one_of(self, mixing=MIXINGS)
        if not self.temperature > 0:
            raise UserError(
                "--mixing_temperature must be above 0, received "
                f"{self.temperature}"
            )

    def shares(self) -> np.ndarray:
        """Of all steps, by task; their sum is 1."""
        power = _POWERS.get(self.mixing, 1.0 / self.temperature)
        # A temperature below 1 has powers that no float holds.
        unit = max(self.sizes) if power > 1.0 else 1.0
        weights = (np.array(self.sizes, float) / unit) ** power
        return weights / weights.sum()

    def counts(self) -> np.ndarray:
        """Steps of each task in a block, int64: largest remainders, 1 at least."""
        exact = self.shares() * BLOCK
        counts = np.maximum(np.floor(exact), 1).astype(np.int64)
        while (missing := BLOCK - counts.sum()) != 0:
            step = int(np.sign(missing))
            lack = step * (exact - counts)
            lack[counts + step < 1] = -np.inf
            counts[np.argmax(lack)] += step
        return counts

    def at(self, step: int) -> tuple[int, int]:
        """(task, how many steps it had before) of step `step` from 0."""
        block, offset = divmod(step, BLOCK)
        order = _block_order(tuple(self.counts().tolist()), self.seed, block)
        task = int(order[offset])
        before = int(np.count_nonzero(order[:offset] == task))
        return task, block * int(self.counts()[task]) + before


@functools.lru_cache(maxsize=4)
def _block_order(counts: tuple[int, ...], seed: int, block: int) -> np.ndarray:
    kinds = np.repeat(np.arange(len(counts)), counts)
    rng = np.random.default_rng((seed & 0xFFFFFFFF, block, 3))
    return rng.permutation(kinds)


@dataclasses.dataclass(frozen=True)
class MixedBatches:
    """Training batches of several tasks."""

    # features with one label per example, by task
    tables: Sequence[FeatureTable]
    lengths: Sequence[int]
    order: TaskOrder
    seed: int = 0
    static_shapes: bool = False  # all batches are as long as the longest (XLA)

    def batch(self, step: int, batch_size: int) -> dict[str, np.ndarray]:
        """Batch number `step`: `common.contract.schema`, `task` int32 [B], and
        `label_ids` float32 [B]."""
        task, number = self.order.at(step)
        table = self.tables[task]
        indices = batches.training_batch(
            table.lengths(), batch_size, self.seed, number
        )
        length = max(self.lengths) if self.static_shapes else self.lengths[task]
        arrays = table.batch(indices, length, batch_size, ("label_ids",))
        arrays["label_ids"] = arrays["label_ids"].astype(np.float32)
        return arrays | {"task": np.full(batch_size, task, np.int32)}

    def endless(self, batch_size: int, step: int) -> Iterator[dict]:
        """Batches from `step` on."""
        while True:
            yield self.batch(step, batch_size)
            step += 1

    def input_fn(self, params: dict):
        """`tf.data` of the batches from `params["start_step"]` on."""
        one_length = self.static_shapes or len(set(self.lengths)) == 1
        ragged = () if one_length else LENGTH_FIELDS
        return pipeline.from_batches(self.endless, ragged)(params)
