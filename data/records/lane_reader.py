"""Lanes -> rows -> batches, in numpy (L2; no TensorFlow).

Row r of the H rows of a direction (H = half of the batch with backward data)
reads, in steps k S .. k S + S - 1, the lane in slot k H + r of the endless list

    perm(epoch 0), perm(epoch 1), ...

of the direction's lanes, one segment per step; its memory is reset at each
lane's first segment. So what a row reads is a pure function of (seed, step). A
batch holds its forward rows, then its backward rows; which of them go to which
replica, host and micro-batch is not known here (`training.batch_split`).
"""

import os
from collections.abc import Iterator

import numpy as np

from common.errors import UserError
from data.pretraining import segments as segments_lib
from data.pretraining.resampling import draw
from data.records.block_builder import DIRECTIONS
from data.records.lane_files import LaneTable, OpenFiles, lane_order
from data.records.manifest import Manifest
from data.records.options import ReaderOptions
from data.records.record_format import FLAG_BACKWARD, FLAG_DOCUMENT, META

_SEED_RESAMPLE = 102
_COLUMN = {name: i for i, name in enumerate(META)}


class LaneReader:
    """Global batches as dicts of numpy arrays.

    Args:
      manifest: of the data.
      options: which batches.

    Attributes:
      rows: B, rows of a batch.
      steps_per_epoch: steps until every lane was read once; the rows that have
        no lane left then are empty (`repeat=False`) or begin the next epoch.

    Raises:
      UserError: the batch does not divide, or there are fewer lanes than rows.
    """

    def __init__(self, manifest: Manifest, options: ReaderOptions):
        self.manifest, self.options = manifest, options
        self.format = manifest.format
        self._directions = 2 if manifest.bi_data else 1
        self._segments = manifest.segments_per_lane[options.split]
        self._half = options.global_batch // self._directions
        masks = manifest.options["materialize_masks"]
        self._ahead = 1 if masks else options.read_ahead  # T x T per row
        self._chunks_per_lane = -(-self._segments // self._ahead)
        self._check_batch()
        self._tables = [
            [
                LaneTable(manifest.select(options.split, name, number))
                for number in range(manifest.num_passes)
            ]
            for name in DIRECTIONS[: self._directions]
        ]
        # With `reuse_len` 0 directions and passes differ in lanes.
        self._lanes = np.asarray(
            [[table.num_lanes for table in tables] for tables in self._tables]
        )
        self._check_lanes()
        self.rows = options.global_batch
        # Of every row of a batch: direction and number in it.
        self._direction, self._row = np.divmod(np.arange(self.rows), self._half)
        periods = -(-int(self._lanes[:, 0].max()) // self._half)
        self.steps_per_epoch = periods * self._segments
        self._files = OpenFiles()

    def _check_batch(self) -> None:
        rows, unit = self.options.global_batch, self._directions
        if rows % unit:
            raise UserError(
                f"the global batch of {rows} rows must divide by {unit} "
                f"(directions); {rows // unit * unit or unit} or another "
                "multiple would do"
            )

    def _check_lanes(self) -> None:
        split, lanes = self.options.split, int(self._lanes.min())
        if not lanes:
            raise UserError(
                f"{self.manifest.data_dir} has no {split} split; build it with "
                "--dev_fraction=0.01"
            )
        if lanes < self._half and self.options.repeat:
            segments = self._segments * lanes // self._half
            advice = (
                f"build with --segments_per_lane={segments}"
                if segments
                else "the corpus is too small for it: take a smaller batch"
            )
            raise UserError(
                f"{self.manifest.data_dir}: a batch of "
                f"{self.options.global_batch} rows needs {self._half} {split} "
                f"lanes per direction, found {lanes} of {self._segments} "
                f"segments; {advice} or use a batch of at most "
                f"{lanes * self._directions} rows"
            )

    # --- Which lanes ----------------------------------------------------------

    def lanes_of(self, period: int) -> list[tuple[int, int] | None]:
        """(epoch, lane) of every row, None for a row without."""
        found = []
        for direction, row in zip(self._direction, self._row, strict=True):
            lanes = self._lanes[direction]
            cycle, place = divmod(period * self._half + row, lanes.sum())
            ends = np.cumsum(lanes)
            number = int(np.searchsorted(ends, place, side="right"))
            place -= ends[number] - lanes[number]
            epoch = int(cycle) * len(lanes) + number
            if epoch and not self.options.repeat:
                found.append(None)
                continue
            order = lane_order(
                self.options.seed, int(direction), epoch, int(lanes[number])
            )
            found.append((epoch, int(order[place])))
        return found

    # --- Reading --------------------------------------------------------------

    def chunks(self) -> Iterator[dict[str, np.ndarray]]:
        """Runs of steps from `start_step` on: arrays [steps, rows, ...].

        Raises:
          UserError: a record that is not as the manifest says, by file and
            number.
        """
        number, skip = self.chunk_of(self.options.start_step)
        while self.num_chunks is None or number < self.num_chunks:
            chunk = self.chunk(number)
            yield {k: v[skip:] for k, v in chunk.items()}
            number, skip = number + 1, 0

    @property
    def num_chunks(self) -> int | None:
        """Chunks until the data end; None without an end."""
        if self.options.repeat:
            return None
        return self.chunk_of(self.steps_per_epoch)[0]

    def chunk_of(self, step: int) -> tuple[int, int]:
        """The chunk that holds a step, and the steps in it before that one.

        Chunks begin at multiples of `read_ahead` in a lane, so that what is
        drawn for one does not depend on where reading began.
        """
        period, segment = divmod(step, self._segments)
        chunk, skip = divmod(segment, self._ahead)
        return period * self._chunks_per_lane + chunk, skip

    def chunk(self, number: int) -> dict[str, np.ndarray]:
        """The steps of one chunk, a function of seed and number alone."""
        period, chunk = divmod(number, self._chunks_per_lane)
        first = chunk * self._ahead
        count = min(self._ahead, self._segments - first)
        return self._read_chunk(period, first, count)

    def read_raw(self, period: int, first: int, count: int):
        """The records of `count` steps of a period, from segment `first` on.

        Returns:
          records uint8 [rows, count, record_size] (zero where a row has no
          lane), the rows' lanes, and (file, lane in it, record) per row.
        """
        lanes = self.lanes_of(period)
        shape = (self.rows, count, self.format.record_size)
        records = np.empty(shape, np.uint8)
        places = [None] * self.rows
        for i, lane in enumerate(lanes):
            if lane is None:
                records[i] = 0
                continue
            number = lane[0] % self.manifest.num_passes
            table = self._tables[self._direction[i]][number]
            file, inside = table.find(lane[1])
            begin = inside * self._segments + first
            places[i] = (file, inside, begin)
            path = os.path.join(self.manifest.data_dir, file.name)
            records[i] = self.format.read(
                self._files.get(path), path, begin, count
            )
        return records, lanes, places

    def _read_chunk(self, period, first, count) -> dict[str, np.ndarray]:
        records, lanes, places = self.read_raw(period, first, count)
        real = np.asarray([lane is not None for lane in lanes])
        verify = self.options.verify and real.any()
        if verify:
            self._verify_bytes(records, real, places)
        arrays = self.format.decode(records.reshape(-1, records.shape[2]))
        arrays = {k: v.reshape(self.rows, count, -1) for k, v in arrays.items()}
        if verify:
            self._verify_values(arrays, real, places, first)
        if self.options.resample_permutation or self.options.resample_targets:
            self._resample(arrays, lanes, first)
        return self._finish(arrays, real, first)

    # --- Checks ---------------------------------------------------------------

    def _fail(self, places, row: int, offset: int, what: str) -> None:
        file, _, begin = places[row]
        path = os.path.join(self.manifest.data_dir, file.name)
        raise UserError(
            f"{path}: record {begin + offset}: {what}; the file is damaged or "
            "of another build: build the data again"
        )

    def _verify_bytes(self, records, real, places) -> None:
        count = records.shape[1]
        rows = np.flatnonzero(real)
        kept = records if real.all() else records[rows]
        bad = self.format.find_corrupt(kept.reshape(-1, records.shape[2]))
        if bad is not None:
            row, offset = divmod(bad[0], count)
            self._fail(places, int(rows[row]), offset, bad[1])

    def _verify_values(self, arrays, real, places, first) -> None:
        """Ids, ranks, positions and lengths in range; the right lane."""
        manifest = self.manifest
        seq_len, reuse_len = manifest.seq_len, manifest.reuse_len
        meta = arrays["meta"]
        ids, ranks = arrays["input_ids"], arrays["ranks"]
        count = meta.shape[1]
        lane = np.asarray([p[1] if p else 0 for p in places])[:, None]
        segment = first + np.arange(count)[None]
        backward = (meta[..., 2] & FLAG_BACKWARD) != 0
        second = meta[..., 4] + meta[..., 5] + 3 * (meta[..., 4] > 0)
        checks = {
            "another lane or segment than its place says": (
                (meta[..., 0] != lane)
                | (meta[..., 1] != segment)
                | (backward != (self._direction[:, None] == 1))
            ),
            f"an id that is not in 0..{manifest.vocab_size - 1}": (
                (ids.min(-1) < 0) | (ids.max(-1) >= manifest.vocab_size)
            ),
            "a rank out of range": (
                (ranks.min(-1) < -1) | (ranks.max(-1) > seq_len + 1)
            ),
            "a target position out of range": (
                arrays["target_positions"].max(-1) >= seq_len
            ),
            "lengths that do not fit": (
                (meta[..., 3:].min(-1) < 0)
                | (meta[..., 3] > reuse_len)
                | (second > seq_len - reuse_len)
                | (meta[..., 7] > manifest.num_predict)
            ),
        }
        for what, wrong in checks.items():
            wrong = wrong & real[:, None]
            if wrong.any():
                row, offset = divmod(int(np.argmax(wrong)), count)
                self._fail(places, row, offset, what)

    # --- Fresh draws ----------------------------------------------------------

    def _resample(self, arrays, lanes, first) -> None:
        """Fresh orders, or targets too, as a function of seed and place."""
        for i, lane in enumerate(lanes):
            if lane is None:
                continue
            seed = [self.options.seed, _SEED_RESAMPLE, *lane]
            seed += [int(self._direction[i]), first]
            rng = np.random.Generator(
                np.random.PCG64(np.random.SeedSequence(seed))
            )
            row = {k: v[i] for k, v in arrays.items()}
            draw(
                row,
                self.manifest,
                rng,
                self.options.resample_targets,
                bool(self._direction[i]),
            )
            for k, v in row.items():
                arrays[k][i] = v

    # --- Batches --------------------------------------------------------------

    def _finish(self, arrays, real, first) -> dict[str, np.ndarray]:
        """Record arrays [rows, steps, ...] -> batch arrays [steps, rows, ...]."""
        manifest = self.manifest
        arrays = {k: np.swapaxes(v, 0, 1) for k, v in arrays.items()}
        meta = arrays["meta"]  # [steps, rows, columns]
        steps, rows = meta.shape[:2]
        layout = segments_lib.layout(
            meta[..., 3].reshape(-1),
            meta[..., 4].reshape(-1),
            meta[..., 5].reshape(-1),
            manifest.seq_len,
            manifest.reuse_len,
        )
        shape = (steps, rows, manifest.seq_len)
        ids = arrays["input_ids"].astype(np.int32)
        if not real.all():
            ids[:, ~real] = manifest.pad_id
        positions = arrays["target_positions"].astype(np.int32)
        slot = np.arange(manifest.num_predict)
        used = slot < meta[..., _COLUMN["targets"], None]
        targets = np.take_along_axis(ids, positions.astype(np.int64), -1)
        reset = np.zeros((steps, rows), bool)
        if first == 0:
            reset[0] = True
        if self.options.reset_memory_at_document:
            reset |= (meta[..., 2] & FLAG_DOCUMENT) != 0
        mask = layout.input_mask.reshape(shape)
        batch = {
            "input_ids": ids,
            "segment_ids": layout.segment_ids.reshape(shape),
            "input_mask": mask.astype(np.int32),
            "ranks": arrays["ranks"].astype(np.int32),
            "target_positions": positions,
            "target_ids": np.where(used, targets, 0),
            "target_weights": used.astype(np.float32),
            "reset_memory": reset,
            "next_sentence_label": np.ascontiguousarray(meta[..., 6]),
            "row_weight": (meta[..., 3] + meta[..., 4] > 0).astype(np.float32),
        }
        if manifest.options["materialize_masks"]:
            batch |= self._unpack_masks(arrays, steps, rows)
        return batch

    def _unpack_masks(self, arrays, steps, rows) -> dict[str, np.ndarray]:
        seq_len = self.manifest.seq_len
        masks = {}
        for name, height, dtype in (
            ("perm_mask", seq_len, np.int32),
            ("target_mapping", self.manifest.num_predict, np.float32),
        ):
            packed = arrays[name].reshape(steps, rows, height, -1)
            bits = np.unpackbits(
                packed, axis=-1, count=seq_len, bitorder="little"
            )
            masks[name] = bits.astype(dtype)
        return masks
