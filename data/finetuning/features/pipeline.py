"""`FeatureTable` -> `tf.data`: the `input_fn(params)` of training and evaluation."""

from collections.abc import Callable, Collection, Iterator, Sequence

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
    """`input_fn(params)` of a split, see `from_batches`.

    Args:
      max_seq_length: T when there are no buckets.
      training: endless, shuffled by (seed, step), whole batches; else every
        example once, the last batch padded with rows of weight 0.
      buckets: rising lengths ending in `max_seq_length`; batches then hold
        examples of like lengths and are as short as fits.
      names: columns to include (None = all): prediction leaves labels out.
      static_shapes: batches still hold examples of like lengths, but all are
        as long as the last bucket (`training.step.static_lengths` cuts them).

    Raises UserError: the split has no examples.
    """
    if not table.num_examples:
        raise UserError("the split holds no examples")
    buckets = tuple(buckets) or (max_seq_length,)
    by_length = len(buckets) > 1
    dynamic = by_length and not static_shapes
    lengths = table.lengths()

    def make(indices: np.ndarray, batch_size: int) -> dict:
        length = buckets[-1]
        if dynamic:
            longest = int(lengths[indices].max())
            length = finetune_batches.fitting_length(longest, buckets)
        batch = table.batch(indices, length, batch_size, names)
        return expand(batch) if expand else batch

    def batches(batch_size: int, step: int) -> Iterator[dict]:
        if not training:
            for indices in finetune_batches.evaluation_batches(
                lengths, batch_size, by_length
            ):
                yield make(indices, batch_size)
        while training:
            indices = finetune_batches.training_batch(
                lengths, batch_size, seed, step, by_length, mixture
            )
            yield make(indices, batch_size)
            step += 1

    ragged = (*LENGTH_FIELDS, *table.token_columns) if dynamic else ()
    return from_batches(batches, ragged)


def from_batches(
    batches: Callable[[int, int], Iterator[dict]], ragged: Collection[str]
):
    """`input_fn(params) -> tf.data.Dataset` of `common.contract.schema` batches.

    `params["batch_size"]` is the global batch, `params.get("start_step", 0)`
    the first training batch. Batches, of numpy, are made by (batch size, first
    step); the last dimension of `ragged` ones differs from batch to batch.
    """

    def input_fn(params):
        import tensorflow as tf

        start = int(params["batch_size"]), int(params.get("start_step", 0))
        signature = {}
        for name, value in next(batches(*start)).items():
            shape = [*value.shape]
            if name in ragged:
                shape[-1] = None
            signature[name] = tf.TensorSpec(shape, tf.as_dtype(value.dtype))
        dataset = tf.data.Dataset.from_generator(
            lambda: batches(*start), output_signature=signature
        )
        return dataset.prefetch(2)

    return input_fn
