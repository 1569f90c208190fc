"""`FeatureTable` -> `tf.data`: the `input_fn(params)` of training and evaluation."""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from common.contract.schema import LENGTH_FIELDS
from common.errors import UserError
from data.finetuning.features import batches as finetune_batches
from data.finetuning.features.table import FeatureTable


def make_input_fn(
    table: FeatureTable,
    max_seq_length: int,
    training: bool,
    seed: int = 0,
    buckets: Sequence[int] = (),
    names: Sequence[str] | None = None,
    expand: Callable[[dict], dict] | None = None,
    static_shapes: bool = False,
    mixture: finetune_batches.Mixture | None = None,
):
    """Batches of a split.

    Args:
      max_seq_length: T when there are no buckets.
      training: endless, shuffled by (seed, step), whole batches; else every
        example once, the last batch padded with rows of weight 0.
      buckets: rising lengths ending in `max_seq_length`; batches then hold
        examples of like lengths and are as short as fits.
      names: columns to include (None = all): prediction leaves labels out.
      static_shapes: batches still hold examples of like lengths, but all are
        as long as the last bucket (`training.step.static_lengths` cuts them).

    Returns:
      `input_fn(params) -> tf.data.Dataset` of `common.contract.schema` batches;
      `params["batch_size"]` is the global batch, `params.get("start_step", 0)`
      the first training batch.

    Raises:
      UserError: the split has no examples.
    """
    if not table.num_examples:
        raise UserError("the split holds no examples")
    source = _Source(
        table,
        tuple(buckets) or (max_seq_length,),
        training,
        seed,
        names,
        expand,
        static_shapes,
        mixture,
    )

    def input_fn(params):
        return source.dataset(
            int(params["batch_size"]), int(params.get("start_step", 0))
        )

    return input_fn


@dataclasses.dataclass(frozen=True)
class _Source:
    """Numpy batches of one split; see `make_input_fn`."""

    table: FeatureTable
    buckets: tuple[int, ...]
    training: bool
    seed: int
    names: Sequence[str] | None
    expand: Callable[[dict], dict] | None
    static_shapes: bool
    mixture: finetune_batches.Mixture | None = None

    @property
    def dynamic(self) -> bool:
        """Batches differ in length."""
        return len(self.buckets) > 1 and not self.static_shapes

    @functools.cached_property
    def lengths(self) -> np.ndarray:
        """Tokens of each example."""
        return self.table.lengths()

    def make(self, indices: np.ndarray, batch_size: int) -> dict:
        """The batch of these examples, as short as the buckets allow."""
        longest = int(self.lengths[indices].max())
        length = self.buckets[-1]
        if self.dynamic:
            length = finetune_batches.fitting_length(longest, self.buckets)
        batch = self.table.batch(indices, length, batch_size, self.names)
        return self.expand(batch) if self.expand else batch

    def dataset(self, batch_size: int, start: int):
        """`batches` from step `start` on as a `tf.data.Dataset`."""
        import tensorflow as tf

        example = self.make(np.arange(1), batch_size)
        signature = {
            name: tf.TensorSpec(
                self._static_shape(name, value),
                tf.as_dtype(value.dtype),
            )
            for name, value in example.items()
        }
        dataset = tf.data.Dataset.from_generator(
            lambda: self.batches(batch_size, start),
            output_signature=signature,
        )
        return dataset.prefetch(2)

    def batches(self, batch_size: int, step: int) -> Iterator[dict]:
        """Batches from `step` on: endless in training, else each row once."""
        by_length = len(self.buckets) > 1
        if not self.training:
            for indices in finetune_batches.evaluation_batches(
                self.lengths, batch_size, by_length
            ):
                yield self.make(indices, batch_size)
            return
        while True:
            indices = finetune_batches.training_batch(
                self.lengths,
                batch_size,
                self.seed,
                step,
                by_length,
                self.mixture,
            )
            yield self.make(indices, batch_size)
            step += 1

    def _static_shape(self, name: str, value: np.ndarray) -> list:
        shape: list = list(value.shape)
        if self.dynamic and name in (*LENGTH_FIELDS, *self.table.token_columns):
            shape[-1] = None
        return shape
