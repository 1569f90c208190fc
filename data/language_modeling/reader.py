"""Token streams -> batches.

    manifest = StreamManifest.load("records")
    dataset = make_dataset(manifest, "train", StreamReadOptions(60, 150),
                           seed=1, start_step=1000)

Elements are dicts of `common.contract.schema.LANGUAGE_MODEL_BATCH`, all shapes static (T
is not with `vary_length`).
Batch n of a dataset is the one of step `start_step + n`, whatever was read
before. `data.language_modeling.reading_schedule` says which row reads what.
"""

import numpy as np
import tensorflow as tf

from common.contract import schema
from data.language_modeling import reading_schedule
from data.language_modeling.manifest import StreamManifest
from data.language_modeling.options import StreamReadOptions
from data.language_modeling.reading_schedule import Varied
from data.language_modeling.stream import ShuffledStream, TokenStream
from data.records import dataset


class StreamReader:
    """Batches of one split as numpy arrays, in chunks of steps.

    Endless for training; else every batch of one epoch, in order. Raises
    UserError: there is no such split, or it is too short.
    """

    def __init__(
        self,
        manifest: StreamManifest,
        split: str,
        options: StreamReadOptions,
        seed: int = 0,
        training: bool = True,
    ):
        self.options, self._training = options, training
        stream = TokenStream(manifest, split, options.verify)
        sizes = (len(stream), options.batch_size, options.seq_len)
        if options.protocol == "anchor":
            self.schedule = reading_schedule.Anchor(*sizes, training)
        elif options.protocol == "sliding" and not training:
            self.schedule = reading_schedule.Sliding(*sizes, options.stride)
        elif training and options.vary_length:
            self.schedule = Varied(*sizes, seed)
        elif training and options.order == "ordered":
            self.schedule = reading_schedule.Circular(*sizes)
        else:
            self.schedule = reading_schedule.Lanes(*sizes)
        rows = np.arange(options.batch_size)
        if options.rows is not None:
            rows = rows[list(options.rows)]
        self._rows = rows
        self._stream = stream
        self._shuffled = None
        if options.order == "shuffled" and training:
            self._shuffled = ShuffledStream(stream, seed, options.batch_size)
        self._mark = None
        marked = manifest.options["line_end"] == "marks"
        if marked and not options.count_mark_pairs:
            self._mark = manifest.vocabulary().eos_id

    @property
    def num_chunks(self) -> int | None:
        """Chunks until the data end; None without an end."""
        if self._training:
            return None
        return -(-self.schedule.steps_per_epoch // self.options.read_ahead)

    def chunk_of(self, step: int) -> tuple[int, int]:
        """The chunk that holds a step, and the steps in it before that one."""
        return divmod(step, self.options.read_ahead)

    def chunk(self, number: int) -> dict[str, np.ndarray]:
        """The batches of one chunk: arrays [steps, B, ...]."""
        ahead = self.options.read_ahead
        steps = np.arange(number * ahead, (number + 1) * ahead)
        if not self._training:
            steps = steps[steps < self.schedule.steps_per_epoch]
        reads = self.schedule.reads(steps)
        shape = (len(steps), len(self._rows), self.schedule.width)
        inputs = np.zeros(shape, np.int32)
        targets = np.zeros(shape, np.int32)
        for i, row in enumerate(self._rows):
            self._fill_row(reads, row, inputs[:, i], targets[:, i])
        places = np.arange(shape[2])
        used = places < reads.length[:, self._rows, None]
        if not np.isscalar(reads.first):
            used &= places >= reads.first[:, self._rows, None]
        if self._mark is not None:
            used &= (inputs != self._mark) | (targets != self._mark)
        batch = {
            "input_ids": inputs,
            "target_ids": targets,
            "target_weights": used.astype(np.float32),
            "reset_memory": reads.reset[:, self._rows],
        }
        if self.schedule.width != self.options.seq_len:
            batch["columns"] = reads.length.max(1).astype(np.int32)
        return batch

    def _fill_row(self, reads, row: int, inputs, targets) -> None:
        """Tokens of one row; steps that follow each other are read at once."""
        start, length = reads.start[:, row], reads.length[:, row]
        follows = start[1:] == start[:-1] + length[:-1]
        follows &= reads.epoch[1:] == reads.epoch[:-1]
        begins = np.flatnonzero(np.insert(~follows, 0, True))
        for first, last in zip(
            begins, np.append(begins[1:], len(start)), strict=True
        ):
            count = int(length[first:last].sum())
            if not count:
                continue
            tokens = self._read(
                int(start[first]), count + 1, reads.epoch[first]
            )
            offset = 0
            for step in range(first, last):
                size = int(length[step])
                inputs[step, :size] = tokens[offset : offset + size]
                targets[step, :size] = tokens[offset + 1 : offset + size + 1]
                offset += size

    def _read(self, start: int, count: int, epoch: int) -> np.ndarray:
        if self._shuffled is not None:
            return self._shuffled.read(start, count, int(epoch))
        return self._stream.read(start, count)


def make_dataset(
    manifest: StreamManifest,
    split: str,
    options: StreamReadOptions,
    seed: int = 0,
    start_step: int = 0,
    training: bool = True,
) -> tf.data.Dataset:
    """Batches of a split, "train", "valid" or "test".

    `input_ids`, `target_ids` int32 [B, T], `target_weights` float32 [B, T],
    `reset_memory` bool [B]. Raises UserError: the data or the batch do not fit.
    """
    reader = StreamReader(manifest, split, options, seed, training)
    rows = options.batch_size if options.rows is None else len(options.rows)
    sizes = {"B": rows, "T": reader.schedule.width}
    fields = {
        name: ([sizes[x] for x in field.shape.split()], field.dtype)
        for name, field in schema.LANGUAGE_MODEL_BATCH.items()
    }
    varied = reader.schedule.width != options.seq_len
    if varied:
        fields["columns"] = ([], "int32")
    batches = dataset.make_dataset(reader, fields, start_step, options.prefetch)
    return batches.map(_cut) if varied else batches


@tf.autograph.experimental.do_not_convert
def _cut(batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """[B, width] -> [B, columns of this batch]."""
    columns = batch.pop("columns")
    return {
        name: x[:, :columns] if x.shape.rank == 2 else x
        for name, x in batch.items()
    }
