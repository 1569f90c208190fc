"""The pretraining reader: record lanes -> `tf.data.Dataset` (L2).

    manifest = load_manifest(data_dir)      # seq_len, reuse_len, num_predict,
                                            # bi_data, vocab_size, symbols, ...
    dataset = make_dataset(data_dir, ReaderOptions(
        global_batch=32, num_replicas=4, seed=1, start_step=1000))

Elements are dicts of `data.schema.PRETRAIN_BATCH` (with explicit masks, of
`PRETRAIN_MATERIALIZED`, too), all shapes static, for one global batch
(one host's share with `num_hosts`): batch n of the dataset is the one of step
`start_step + n`, whatever was read before. `data.records.lane_reader` says which rows
stand where. Errors of the data become `tf.errors` in tf.data; `as_user_error`
gives the one line back.
"""

import numpy as np
import tensorflow as tf

from common.errors import UserError
from data import schema
from data.records.lane_reader import LaneReader
from data.records.manifest import Manifest, load_manifest
from data.records.options import ReaderOptions

__all__ = [
    "Manifest",
    "ReaderOptions",
    "as_user_error",
    "load_manifest",
    "make_dataset",
    "steps_per_epoch",
]

_FOREVER = 1 << 62
_last_error: list[UserError] = []


def make_dataset(
    data_dir: str | Manifest, options: ReaderOptions
) -> tf.data.Dataset:
    """Batches of one host.

    Args:
      data_dir: a data directory or its manifest.
      options: which batches.

    Returns:
      Dicts of tensors [b, ...], b = global_batch / num_hosts; endless unless
      `repeat` is False. Each replica's share holds its forward rows first.

    Raises:
      UserError: the data or the batch do not fit.
    """
    manifest = data_dir
    if isinstance(data_dir, str):
        manifest = load_manifest(data_dir)
    reader = LaneReader(manifest, options)

    fields = _fields(manifest, reader.rows)

    def read(number: np.ndarray) -> list[np.ndarray]:
        try:
            chunk = reader.chunk(int(number))
        except UserError as e:
            _last_error[:] = [e]
            raise
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


def steps_per_epoch(manifest: Manifest, options: ReaderOptions) -> int:
    """Steps until every lane of the split was read once."""
    return LaneReader(manifest, options).steps_per_epoch


def as_user_error(error: BaseException) -> UserError | None:
    """The reader's own one-line error inside one that tf.data raised."""
    if _last_error and str(_last_error[0]) in str(error):
        return _last_error[0]
    return None
