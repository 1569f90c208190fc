"""Lanes -> rows -> batches, in numpy (no TensorFlow).

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
from data.records.lane_files import LaneTable, OpenFiles, lane_order
from data.records.layout import LaneLayout
from data.records.options import LaneOptions


class LaneReader:
    """Global batches as dicts of numpy arrays.

    Attributes:
      rows: rows of a batch that are read, B or as many as `options.rows`.
      segments: records of a lane.
      steps_per_epoch: steps until every lane was read once; the rows that have
        no lane left then are empty (`repeat=False`) or begin the next epoch.

    Raises:
      UserError: the batch does not divide, or there are fewer lanes than rows.
    """

    def __init__(self, layout: LaneLayout, options: LaneOptions):
        self.layout, self.options = layout, options
        self.format = layout.format
        self.segments = layout.segments
        self._half = options.global_batch // layout.directions
        self._ahead = layout.read_ahead(options)
        self._chunks_per_lane = -(-self.segments // self._ahead)
        self._check_batch()
        self._tables = [
            [
                LaneTable(layout.files(direction, number))
                for number in range(layout.passes)
            ]
            for direction in range(layout.directions)
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
        rows, unit = self.options.global_batch, self.layout.directions
        if rows % unit:
            raise UserError(
                f"the global batch of {rows} rows must divide by {unit} "
                f"(directions); {rows // unit * unit or unit} or another "
                "multiple would do"
            )

    def _check_lanes(self) -> None:
        split, lanes = self.options.split, int(self._lanes.min())
        self.layout.require_lanes(lanes)
        if lanes < self._half and self.options.repeat:
            segments = self.segments * lanes // self._half
            advice = (
                f"build with --segments_per_lane={segments}"
                if segments
                else "the corpus is too small for it: take a smaller batch"
            )
            raise UserError(
                f"{self.layout.data_dir}: a batch of "
                f"{self.options.global_batch} rows needs {self._half} {split} "
                f"lanes per direction, found {lanes} of {self.segments} "
                f"segments; {advice} or use a batch of at most "
                f"{lanes * self.layout.directions} rows"
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
        period, segment = divmod(step, self.segments)
        chunk, skip = divmod(segment, self._ahead)
        return period * self._chunks_per_lane + chunk, skip

    def chunk(self, number: int) -> dict[str, np.ndarray]:
        """The steps of one chunk, a function of seed and number alone."""
        period, chunk = divmod(number, self._chunks_per_lane)
        first = chunk * self._ahead
        count = min(self._ahead, self.segments - first)
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
            number = lane[0] % self.layout.passes
            table = self._tables[self._direction[i]][number]
            file, inside = table.find(lane[1])
            first_record = inside * self.segments + first
            places[i] = (file, inside, first_record)
            path = os.path.join(self.layout.data_dir, file.name)
            records[i] = self.format.read(
                self._files.get(path), path, first_record, count
            )
        return records, lanes, places

    def _read_chunk(self, period, first, count) -> dict[str, np.ndarray]:
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
        for i, lane in enumerate(lanes):
            if lane is not None:
                row = {k: v[i] for k, v in arrays.items()}
                self.layout.redraw(row, lane, int(self._direction[i]), first)
        arrays = {k: np.swapaxes(v, 0, 1) for k, v in arrays.items()}
        return self.layout.batch(arrays, real, first)

    # --- Checks ---------------------------------------------------------------

    def _fail(self, places, row: int, offset: int, what: str) -> None:
        file, _, first_record = places[row]
        path = os.path.join(self.layout.data_dir, file.name)
        raise UserError(
            f"{path}: record {first_record + offset}: {what}; the file is damaged or "
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
        """What records hold; that they are of the right lane."""
        lane = np.asarray([p[1] if p else 0 for p in places])[:, None]
        count = next(iter(arrays.values())).shape[1]
        segment = first + np.arange(count)[None]
        direction = self._direction[:, None]
        wrong_rows = self.layout.wrong(arrays, lane, segment, direction)
        for what, wrong in wrong_rows.items():
            wrong = wrong & real[:, None]
            if wrong.any():
                row, offset = divmod(int(np.argmax(wrong)), count)
                self._fail(places, row, offset, what)
