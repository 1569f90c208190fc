"""Lanes of two segments -> rows -> pretraining batches, in numpy (no TensorFlow).

Row r of the H rows of a direction (H = half of the batch with backward data)
reads, in steps k S .. k S + S - 1, the lane in slot k H + r of the endless list

    perm(epoch 0), perm(epoch 1), ...

of the direction's lanes, one segment per step; its memory is reset at each
lane's first segment. So what a row reads is a pure function of (seed, step). A
batch holds its forward rows, then its backward rows; which of them go to which
replica, host and micro-batch is not known here (`training.step.batch_split`).
"""

import os
from collections.abc import Iterator

import numpy as np

from common.errors import UserError
from data.pretraining.block_builder import DIRECTIONS
from data.pretraining.manifest import (
    FLAG_BACKWARD,
    FLAG_DOCUMENT,
    PretrainingManifest,
)
from data.pretraining.options import ReaderOptions
from data.pretraining.sampling import segments as segments_lib
from data.pretraining.sampling.record_arrays import check_sampler, draw
from data.records.lane_files import LaneTable, OpenFiles, lane_order

_SEED_RESAMPLE = 102
_LENGTHS = ("reuse_tokens", "a_tokens", "b_tokens", "label", "targets")


class LaneReader:
    """Global batches of `common.contract.schema` as dicts of numpy arrays.

    `rows` of a batch are read, B or as many as `options.rows`; `segments` is
    the records of a lane. After `steps_per_epoch` every lane was read once; the
    rows that have no lane left then are empty (`repeat=False`) or begin the
    next epoch. Raises UserError where the batch does not divide, or there are
    fewer lanes than rows.
    """

    def __init__(self, manifest: PretrainingManifest, options: ReaderOptions):
        check_sampler(
            manifest,
            resample_permutation=options.resample_permutation,
            resample_targets=options.resample_targets,
        )
        self.manifest, self.options = manifest, options
        self.format = manifest.format
        self.segments = manifest.segments_per_lane[options.split]
        self._directions = 2 if manifest.bi_data else 1
        self._half = options.global_batch // self._directions
        # Explicit masks are T x T per row.
        self._masks = manifest.options["materialize_masks"]
        self._ahead = 1 if self._masks else options.read_ahead
        self._chunks_per_lane = -(-self.segments // self._ahead)
        self._check_batch()
        self._tables = [
            [
                LaneTable(manifest.select(options.split, direction, number))
                for number in range(manifest.num_passes)
            ]
            for direction in DIRECTIONS[: self._directions]
        ]
        # With `reuse_len` 0 directions and passes differ in lanes.
        self._lanes = np.asarray(
            [[table.num_lanes for table in tables] for tables in self._tables]
        )
        self._check_lanes()
        rows = np.arange(options.global_batch)
        if options.rows is not None:
            rows = rows[list(options.rows)]
        self.rows = len(rows)
        # Of every row that is read: direction and number in it.
        self._direction, self._row = np.divmod(rows, self._half)
        periods = -(-int(self._lanes[:, 0].max()) // self._half)
        self.steps_per_epoch = periods * self.segments
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
                f"{self.manifest.data_dir} has no {split} split; build it "
                "with --dev_fraction=0.01"
            )
        if lanes < self._half and self.options.repeat:
            segments = self.segments * lanes // self._half
            advice = (
                f"build with --segments_per_lane={segments}"
                if segments
                else "the corpus is too small for it: take a smaller batch"
            )
            raise UserError(
                f"{self.manifest.data_dir}: a batch of "
                f"{self.options.global_batch} rows needs {self._half} {split} "
                f"lanes per direction, found {lanes} of {self.segments} "
                f"segments; {advice} or use a batch of at most "
                f"{lanes * self._directions} rows"
            )

    # --- Which lanes ----------------------------------------------------------

    def lanes_of(self, period: int) -> list[tuple[int, int] | None]:
        """(epoch, lane) of every row, None for a row without."""
        epoch_lanes = []
        for direction, row in zip(self._direction, self._row, strict=True):
            lanes = self._lanes[direction]
            cycle, lane = divmod(period * self._half + row, lanes.sum())
            ends = np.cumsum(lanes)
            number = int(np.searchsorted(ends, lane, side="right"))
            lane -= ends[number] - lanes[number]
            epoch = int(cycle) * len(lanes) + number
            if epoch and not self.options.repeat:
                epoch_lanes.append(None)
                continue
            order = lane_order(
                self.options.seed, int(direction), epoch, int(lanes[number])
            )
            epoch_lanes.append((epoch, int(order[lane])))
        return epoch_lanes

    # --- Reading --------------------------------------------------------------

    def chunks(self) -> Iterator[dict[str, np.ndarray]]:
        """Runs of steps from `start_step` on: arrays [steps, rows, ...].

        UserError names file and number of a record that is not as the manifest
        says.
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
        period, segment = divmod(step, self.segments)
        chunk, skip = divmod(segment, self._ahead)
        return period * self._chunks_per_lane + chunk, skip

    def chunk(self, number: int) -> dict[str, np.ndarray]:
        """The steps of one chunk, a function of seed and number alone."""
        period, chunk = divmod(number, self._chunks_per_lane)
        first = chunk * self._ahead
        count = min(self._ahead, self.segments - first)
        records, lanes, places = self.read_raw(period, first, count)
        real = np.asarray([lane is not None for lane in lanes])
        verify = self.options.verify and real.any()
        if verify:
            self._verify_bytes(records, real, places)
        arrays = self.format.decode(records.reshape(-1, records.shape[2]))
        arrays = {
            k: v.reshape(self.rows, count, *v.shape[1:])
            for k, v in arrays.items()
        }
        if verify:
            self._verify_values(arrays, real, places, first)
        if self.options.resample_permutation or self.options.resample_targets:
            for i in np.flatnonzero(real):
                row = {k: v[i] for k, v in arrays.items()}
                self._redraw(row, lanes[i], int(self._direction[i]), first)
        arrays = {k: np.swapaxes(v, 0, 1) for k, v in arrays.items()}
        return self._batch(arrays, real, first)

    def read_raw(self, period: int, first: int, count: int):
        """The records of `count` steps of a period, from segment `first` on.

        uint8 [rows, count, record_size] (zero where a row has no lane), the
        rows' lanes, and (file, lane in it, record) per row.
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
            first_record = inside * self.segments + first
            places[i] = (file, inside, first_record)
            path = os.path.join(self.manifest.data_dir, file.name)
            records[i] = self.format.read(
                self._files.get(path), path, first_record, count
            )
        return records, lanes, places

    def _redraw(self, row, lane, direction: int, first: int) -> None:
        """Fresh orders, or targets too, as a function of seed and place."""
        seed = [self.options.seed, _SEED_RESAMPLE, *lane]
        seed += [direction, first]
        rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed)))
        old, fresh_targets = dict(row), self.options.resample_targets
        draw(row, self.manifest, rng, fresh_targets, bool(direction))
        for name, value in row.items():
            old[name][...] = value

    def _batch(self, arrays, real, first: int) -> dict[str, np.ndarray]:
        """Record arrays [steps, rows, ...] -> `schema.PRETRAIN_BATCH`."""
        manifest = self.manifest
        meta = arrays["meta"]  # [steps, rows]
        steps, rows = meta.shape
        layout = segments_lib.layout(
            *(meta[name].reshape(-1) for name in _LENGTHS[:3]),
            manifest.seq_len,
            manifest.reuse_len,
        )
        shape = (steps, rows, manifest.seq_len)
        ids = arrays["input_ids"].astype(np.int32)
        if not real.all():
            ids[:, ~real] = manifest.symbols.pad
        positions = arrays["target_positions"].astype(np.int32)
        slot = np.arange(manifest.num_predict)
        used = slot < meta["targets"][..., None]
        targets = np.take_along_axis(ids, positions.astype(np.int64), -1)
        reset = np.zeros((steps, rows), bool)
        if first == 0:
            reset[0] = True
        if self.options.reset_memory_at_document:
            reset |= (meta["flags"] & FLAG_DOCUMENT) != 0
        text = meta["reuse_tokens"] + meta["a_tokens"]
        batch = {
            "input_ids": ids,
            "segment_ids": layout.segment_ids.reshape(shape),
            "input_mask": layout.input_mask.reshape(shape).astype(np.int32),
            "ranks": arrays["ranks"].astype(np.int32),
            "target_positions": positions,
            "target_ids": np.where(used, targets, 0),
            "target_weights": used.astype(np.float32),
            "reset_memory": reset,
            "next_sentence_label": np.ascontiguousarray(meta["label"]),
            "row_weight": (text > 0).astype(np.float32),
        }
        if self._masks:
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

    # --- Checks ---------------------------------------------------------------

    def _fail(self, places, row: int, offset: int, what: str) -> None:
        file, _, first_record = places[row]
        self.manifest.refuse_record(file.name, first_record + offset, what)

    def _verify_bytes(self, records, real, places) -> None:
        count = records.shape[1]
        rows = np.flatnonzero(real)
        kept = records if real.all() else records[rows]
        bad = self.format.find_corrupt(kept.reshape(-1, records.shape[2]))
        if bad is not None:
            row, offset = divmod(bad[0], count)
            self._fail(places, int(rows[row]), offset, bad[1])

    def _verify_values(self, arrays, real, places, first: int) -> None:
        """What records hold; that they are of the right lane."""
        lane = np.asarray([p[1] if p else 0 for p in places])[:, None]
        count = arrays["meta"].shape[1]
        segment = first + np.arange(count)[None]
        backward = self._direction[:, None] == 1
        for what, wrong in self._wrong(arrays, lane, segment, backward).items():
            wrong = wrong & real[:, None]
            if wrong.any():
                row, offset = divmod(int(np.argmax(wrong)), count)
                self._fail(places, row, offset, what)

    def _wrong(self, arrays, lane, segment, backward) -> dict[str, np.ndarray]:
        """Words for a mistake -> which records have it, bool [rows, steps]."""
        manifest = self.manifest
        seq_len, reuse_len = manifest.seq_len, manifest.reuse_len
        meta = arrays["meta"]
        ids, ranks = arrays["input_ids"], arrays["ranks"]
        a_tokens = meta["a_tokens"]
        second = a_tokens + meta["b_tokens"] + 3 * (a_tokens > 0)
        smallest = np.min([meta[name] for name in _LENGTHS], axis=0)
        return {
            "another lane or segment than its place says": (
                (meta["lane"] != lane)
                | (meta["segment"] != segment)
                | (((meta["flags"] & FLAG_BACKWARD) != 0) != backward)
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
                (smallest < 0)
                | (meta["reuse_tokens"] > reuse_len)
                | (second > seq_len - reuse_len)
                | (meta["targets"] > manifest.num_predict)
            ),
        }
