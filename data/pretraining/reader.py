"""The pretraining reader: record lanes -> `tf.data.Dataset` (L2).

    manifest = load_manifest(data_dir)      # seq_len, reuse_len, num_predict,
                                            # bi_data, vocab_size, symbols, ...
    dataset = make_dataset(data_dir, ReaderOptions(
        global_batch=32, seed=1, start_step=1000))

Elements are dicts of `data.schema.PRETRAIN_BATCH` (with explicit masks, of
`PRETRAIN_MATERIALIZED`, too), all shapes static, for one global batch: batch n
of the dataset is the one of step `start_step + n`, whatever was read before.
`data.records.lane_reader` says which rows stand where. A `UserError` of the data
is the text of the `tf.errors` that tf.data raises (`training.guards`).
"""

import numpy as np
import tensorflow as tf

from data import schema
from data.records.lane_reader import LaneReader
from data.records.manifest import Manifest, load_manifest
from data.records.options import ReaderOptions

__all__ = [
    "Manifest",
    "ReaderOptions",
    "load_manifest",
    "make_dataset",
]

_FOREVER = 1 << 62


def make_dataset(
    data_dir: str | Manifest, options: ReaderOptions
) -> tf.data.Dataset:
    """Global batches.

    Args:
      data_dir: a data directory or its manifest.
      options: which batches.

    Returns:
      Dicts of tensors [B, ...], forward rows first; endless unless `repeat` is
      False.

    Raises:
      UserError: the data or the batch do not fit.
    """
    manifest = data_dir
    if isinstance(data_dir, str):
        manifest = load_manifest(data_dir)
    reader = LaneReader(manifest, options)

    fields = _fields(manifest, reader.rows)

    def read(number: np.ndarray) -> list[np.ndarray]:
        chunk = reader.chunk(int(number))
        return [chunk[name] for name in fields]

    def to_tensors(number: tf.Tensor) -> dict[str, tf.Tensor]:
        dtypes = [field.dtype for _, field in fields.values()]
        values = tf.numpy_function(read, [number], dtypes)
        for value, (shape, _) in zip(values, fields.values(), strict=True):
            value.set_shape([None, *shape])
        return dict(zip(fields, values, strict=True))

    first, skip = reader.chunk_of(options.start_step)
    last = reader.num_chunks
    numbers = tf.data.Dataset.range(first, _FOREVER if last is None else last)
    # One call of Python reads several steps. (No generator: one that is still
    # open when the process ends keeps it from ending.)
    dataset = numbers.map(to_tensors, num_parallel_calls=1).unbatch()
    if skip:
        dataset = dataset.skip(skip)
    if options.prefetch:
        dataset = dataset.prefetch(options.prefetch)
    return dataset


def _fields(manifest: Manifest, rows: int) -> dict:
    sizes = {"B": rows, "T": manifest.seq_len, "P": manifest.num_predict}
    fields = dict(schema.PRETRAIN_BATCH)
    if manifest.options["materialize_masks"]:
        fields |= schema.PRETRAIN_MATERIALIZED
    return {
        name: ([sizes[letter] for letter in field.shape.split()], field)
        for name, field in fields.items()
    }
