"""Readers of chunks -> `tf.data.Dataset`."""

from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

_FOREVER = 1 << 62


def make_dataset(
    reader,
    fields: Mapping[str, tuple[Sequence[int], str]],
    start_step: int,
    prefetch: int,
) -> tf.data.Dataset:
    """Batches from a step on, read in the background: dicts of tensors.

    A `UserError` of the data is the text of the `tf.errors` that tf.data raises
    (`training.step.guards`).

    Args:
      reader: gives batches in chunks of steps, each a function of its number
        alone: `chunk(number)`, arrays [steps, ...]; `chunk_of(step)`, its
        chunk and the steps in it before; `num_chunks`, None without an end.
      fields: name -> shape of one batch and dtype.
      prefetch: batches kept ready; 0 = none.
    """

    def read(number: np.ndarray) -> list[np.ndarray]:
        chunk = reader.chunk(int(number))
        return [chunk[name] for name in fields]

    @tf.autograph.experimental.do_not_convert
    def to_tensors(number: tf.Tensor) -> dict[str, tf.Tensor]:
        dtypes = [dtype for _, dtype in fields.values()]
        values = tf.numpy_function(read, [number], dtypes)
        for value, (shape, _) in zip(values, fields.values(), strict=True):
            value.set_shape([None, *shape])
        return dict(zip(fields, values, strict=True))

    first, skip = reader.chunk_of(start_step)
    last = reader.num_chunks
    numbers = tf.data.Dataset.range(first, _FOREVER if last is None else last)
    # One call of Python reads several steps. (No generator: one that is still
    # open when the process ends keeps it from ending.)
    dataset = numbers.map(to_tensors, num_parallel_calls=1).unbatch()
    if skip:
        dataset = dataset.skip(skip)
    if prefetch:
        dataset = dataset.prefetch(prefetch)
    return dataset
