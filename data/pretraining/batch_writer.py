"""Records in the order of batches, for `--materialize_batches`.

One file per pass holds one epoch: record n is row n mod B of step n div B, the
forward rows first, in the lane order of the build's seed; read in sequence it
needs no lanes. A row without a lane at the epoch's end is an empty record.
"""

import dataclasses
import hashlib
import os

import numpy as np

from common import files
from data.pretraining.lanes import LaneReader
from data.pretraining.manifest import PretrainingManifest
from data.pretraining.options import ReaderOptions

_AHEAD = 8


def write(manifest: PretrainingManifest) -> PretrainingManifest:
    """Writes the files; returns the manifest with them.

    Raises:
      UserError: the batch does not divide by the directions.
    """
    rows = manifest.options["materialize_batches"]
    batch_files = []
    for number in range(manifest.num_passes):
        one_pass = dataclasses.replace(
            manifest,
            options=manifest.options | {"num_passes": 1},
            files=tuple(
                dataclasses.replace(f, number=0)
                for f in manifest.files
                if f.number == number
            ),
        )
        options = ReaderOptions(
            global_batch=rows, seed=manifest.options["seed"], repeat=False
        )
        name = f"batches{rows}-pass{number}.tfrecord"
        path = os.path.join(manifest.data_dir, name)
        records, digest = _write_file(LaneReader(one_pass, options), path)
        batch_files.append(
            {
                "name": name,
                "rows": rows,
                "records": records,
                "bytes": records * manifest.format.record_size,
                "sha256": digest,
            }
        )
    return dataclasses.replace(manifest, batches=tuple(batch_files))


def _write_file(reader: LaneReader, path: str) -> tuple[int, str]:
    layout = reader.format
    empty = layout.encode(layout.zeros(1))
    segments = reader.segments
    digest, records = hashlib.sha256(), 0
    with files.atomic_open(path) as f:
        for period in range(reader.steps_per_epoch // segments):
            for first in range(0, segments, _AHEAD):
                count = min(_AHEAD, segments - first)
                raw, lanes, _ = reader.read_raw(period, first, count)
                for i, lane in enumerate(lanes):
                    if lane is None:
                        raw[i] = empty
                data = np.ascontiguousarray(np.swapaxes(raw, 0, 1)).tobytes()
                f.write(data)
                digest.update(data)
                records += count * reader.rows
    return records, digest.hexdigest()
