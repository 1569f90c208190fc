"""The pretraining reader: record lanes -> `tf.data.Dataset`.

    manifest = PretrainingManifest.load(data_dir)   # seq_len, reuse_len, ...
    dataset = make_dataset(data_dir, ReaderOptions(
        global_batch=32, seed=1, start_step=1000))

Elements are dicts of `common.contract.schema.PRETRAIN_BATCH` (with explicit masks, of
`PRETRAIN_MATERIALIZED`, too), all shapes static, for one global batch: batch n
of the dataset is the one of step `start_step + n`, whatever was read before.
`data.pretraining.lanes` says which rows stand where. A `UserError` of the data
is the text of the `tf.errors` that tf.data raises (`training.step.guards`).
"""

import tensorflow as tf

from common.contract import schema
from data.pretraining.lanes import LaneReader
from data.pretraining.manifest import PretrainingManifest
from data.pretraining.options import ReaderOptions
from data.records import dataset


def make_dataset(
    data_dir: str | PretrainingManifest, options: ReaderOptions
) -> tf.data.Dataset:
    """Global batches: dicts of tensors [B, ...], forward rows first.

    Endless unless `repeat` is False. Raises UserError where the data or the
    batch do not fit.
    """
    manifest = data_dir
    if isinstance(data_dir, str):
        manifest = PretrainingManifest.load(data_dir)
    reader = LaneReader(manifest, options)
    sizes = {"B": reader.rows, "T": manifest.seq_len, "P": manifest.num_predict}
    fields = dict(schema.PRETRAIN_BATCH)
    if manifest.options["materialize_masks"]:
        fields |= schema.PRETRAIN_MATERIALIZED
    shapes = {
        name: ([sizes[letter] for letter in field.shape.split()], field.dtype)
        for name, field in fields.items()
    }
    return dataset.make_dataset(
        reader, shapes, options.start_step, options.prefetch
    )
