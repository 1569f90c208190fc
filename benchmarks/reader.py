"""Speed of the pretraining reader, as JSON.

    python -m benchmarks.reader

Synthetic records (random ids in valid lanes) of 512 positions, batches of 32
rows, validation on, with 32 and with 2048 lanes per direction; tokens per
second out of `tf.data` and out of the numpy part alone, by wall clock and by
CPU time, and the seconds that a seek to a far step takes until its batch.
"""

import json
import os
import shutil
import tempfile
import time

import numpy as np
from absl import flags

from common import files
from common.contract.symbols import SymbolIds
from data.pretraining.lanes import LaneReader
from data.pretraining.manifest import (
    FLAG_BACKWARD,
    LaneFile,
    PretrainingManifest,
    make_format,
)
from data.pretraining.options import BuildOptions, ReaderOptions
from data.pretraining.reader import make_dataset
from data.pretraining.sampling import record_arrays
from data.pretraining.sampling import segments as segments_lib
from data.pretraining.sampling.token_stream import Stream
from flags import app

FLAGS = flags.FLAGS
VOCAB = 32000
SEGMENTS = 64


def define() -> None:
    """Registers the benchmark's flags."""
    flags.DEFINE_integer("steps", 400, "Batches to time.", 1)
    flags.DEFINE_integer("batch", 32, "Rows of a timed batch.", 1)


def write_data(folder: str, lanes: int) -> PretrainingManifest:
    """A data directory with so many lanes per direction."""
    options = BuildOptions("-", "-", folder)
    layout = make_format(512, options.num_predict, VOCAB)
    rng = np.random.default_rng(0)
    # Few distinct lanes, repeated: what is read does not depend on the ids.
    distinct = min(lanes, 32)
    total = distinct * SEGMENTS * options.reuse_len
    ids = rng.integers(9, VOCAB, total).astype(np.int32)
    words = rng.random(total) < 0.7
    words[0] = True
    stream = Stream(
        ids, np.arange(0, total, 25), np.arange(0, total, 900), words
    )
    cut = segments_lib.make_segments(stream, total, 512, 256, rng)
    record_files = []
    for direction, name in enumerate(("forward", "backward")):
        arrays = record_arrays.make_arrays(
            stream, cut, options, SymbolIds(), rng
        )
        meta = arrays["meta"]
        meta["segment"] = np.arange(len(meta)) % SEGMENTS
        meta["flags"] = direction * FLAG_BACKWARD
        path = f"train-{name}-pass0-block00000.tfrecord"
        with files.atomic_open(os.path.join(folder, path)) as f:
            for first in range(0, lanes, distinct):
                meta["lane"] = first + np.arange(len(meta)) // SEGMENTS
                f.write(layout.encode(arrays).tobytes())
        size = lanes * SEGMENTS * layout.record_size
        record_files.append(
            LaneFile(
                name=path,
                block=0,
                split="train",
                bytes=size,
                sha256="",
                direction=name,
                number=0,
                lanes=lanes,
                segments=lanes * SEGMENTS,
                targets=int(meta["targets"].sum()),
                is_next=0,
            )
        )
    return PretrainingManifest(
        data_dir=folder,
        options=options.identity(),
        vocab_size=VOCAB,
        versions={},
        counts={},
        files=tuple(record_files),
        spiece_sha256="",
        symbols=SymbolIds(),
        word_starts=np.ones(VOCAB, bool),
        segments_per_lane={"train": SEGMENTS, "dev": 1},
        unigram={"train_entropy": 0.0},
    )


def measure(manifest: PretrainingManifest, lanes: int) -> dict:
    """Rates of one data directory."""
    options = ReaderOptions(global_batch=FLAGS.batch)
    tokens = FLAGS.batch * manifest.seq_len
    iterator = iter(make_dataset(manifest, options))
    for _ in range(64):
        next(iterator)
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(FLAGS.steps):
        next(iterator)
    wall = time.perf_counter() - wall
    cpu = time.process_time() - cpu
    reader = LaneReader(manifest, options)
    inside_wall, inside_cpu = time.perf_counter(), time.process_time()
    steps = number = 0
    while steps < FLAGS.steps:
        steps += len(reader.chunk(number)["ranks"])
        number += 1
    inside_wall = time.perf_counter() - inside_wall
    inside_cpu = time.process_time() - inside_cpu
    far = ReaderOptions(global_batch=FLAGS.batch, start_step=10**6 + 37)
    seek = time.perf_counter()
    next(LaneReader(manifest, far).chunks())
    seek = time.perf_counter() - seek
    total = tokens * FLAGS.steps
    return {
        "lanes_per_direction": lanes,
        "tokens_per_second": total / wall,
        "tokens_per_cpu_second": total / cpu,
        "numpy_tokens_per_second": tokens * steps / inside_wall,
        "numpy_tokens_per_cpu_second": tokens * steps / inside_cpu,
        "seek_to_step": far.start_step,
        "seek_seconds": seek,
    }


def main() -> None:
    """Prints the JSON."""
    results = []
    for lanes in (32, 2048):
        folder = tempfile.mkdtemp(prefix="reader-")
        try:
            results.append(measure(write_data(folder, lanes), lanes))
        finally:
            shutil.rmtree(folder)
    print(json.dumps({"batch": FLAGS.batch, "seq_len": 512, "runs": results}))


if __name__ == "__main__":
    define()
    app.run(main)
