"""The pretraining reader: record lanes -> `tf.data.Dataset` (L2).

    manifest = load_manifest(data_dir)      # seq_len, reuse_len, num_predict,
                                            # bi_data, vocab_size, symbols, ...
    dataset = make_dataset(data_dir, ReaderOptions(
        global_batch=32, num_replicas=4, seed=1, start_step=1000))

Elements are dicts of `data.schema.PRETRAIN_BATCH` (with explicit masks, of
`PRETRAIN_MATERIALIZED`, too), all shapes static, for one global batch
(one host's share with `num_hosts`): batch n of the dataset is the one of step
`start_step + n`, whatever was read before. `data.lane_reader` says which rows
stand where. Errors of the data become `tf.errors` in tf.data; `as_user_error`
gives the one line back.
"""

import tensorflow as tf

from common.errors import UserError
from data import schema
from data.lane_reader import LaneReader
from data.manifest import Manifest, load_manifest
from data.options import ReaderOptions

__all__ = [
    "Manifest",
    "ReaderOptions",
    "as_user_error",
    "load_manifest",
    "make_dataset",
    "steps_per_epoch",
]

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

    def chunks():
        try:
            yield from reader.chunks()
        except UserError as e:
            _last_error[:] = [e]
            raise

    signature = {
        name: tf.TensorSpec([None, *shape], field.dtype)
        for name, (shape, field) in _fields(manifest, reader.rows).items()
    }
    dataset = tf.data.Dataset.from_generator(chunks, output_signature=signature)
    # A chunk holds several steps: one call of Python for all of them.
    dataset = dataset.unbatch()
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
