"""Lanes of two segments -> pretraining batches, in numpy."""

import numpy as np

from common.errors import UserError
from data.pretraining.block_builder import DIRECTIONS
from data.pretraining.manifest import PretrainingManifest
from data.pretraining.options import ReaderOptions
from data.pretraining.record import FLAG_BACKWARD, FLAG_DOCUMENT
from data.pretraining.sampling import segments as segments_lib
from data.pretraining.sampling.resampling import check_sampler, draw
from data.records.lane_reader import LaneReader
from data.records.layout import LaneLayout

_SEED_RESAMPLE = 102
_LENGTHS = ("reuse_tokens", "a_tokens", "b_tokens", "label", "targets")


def open_lanes(
    manifest: PretrainingManifest, options: ReaderOptions
) -> LaneReader:
    """A reader of global batches as dicts of numpy arrays.

    Raises:
      UserError: the batch does not divide, or there are fewer lanes than rows.
    """
    return LaneReader(TwoSegmentLanes(manifest, options), options)


class TwoSegmentLanes(LaneLayout):
    """The records of `data.pretraining.build` as batches of `common.contract.schema`."""

    def __init__(self, manifest: PretrainingManifest, options: ReaderOptions):
        check_sampler(
            manifest,
            resample_permutation=options.resample_permutation,
            resample_targets=options.resample_targets,
        )
        self.manifest, self.options = manifest, options
        self.data_dir, self.format = manifest.data_dir, manifest.format
        self.segments = manifest.segments_per_lane[options.split]
        self.directions = 2 if manifest.bi_data else 1
        self.passes = manifest.num_passes
        self._masks = manifest.options["materialize_masks"]

    def files(self, direction: int, number: int):
        """Files of one direction and pass."""
        name = DIRECTIONS[direction]
        return self.manifest.select(self.options.split, name, number)

    def require_lanes(self, lanes: int) -> None:
        """Raises UserError where a split has no lanes."""
        if not lanes:
            raise UserError(
                f"{self.data_dir} has no {self.options.split} split; build it "
                "with --dev_fraction=0.01"
            )

    def read_ahead(self, options: ReaderOptions) -> int:
        """Steps to read at once; explicit masks are T x T per row."""
        return 1 if self._masks else options.read_ahead

    def wrong(self, arrays, lane, segment, direction):
        """Ids, ranks, positions and lengths in range; the right lane."""
        manifest = self.manifest
        seq_len, reuse_len = manifest.seq_len, manifest.reuse_len
        meta = arrays["meta"]
        ids, ranks = arrays["input_ids"], arrays["ranks"]
        backward = (meta["flags"] & FLAG_BACKWARD) != 0
        a_tokens = meta["a_tokens"]
        second = a_tokens + meta["b_tokens"] + 3 * (a_tokens > 0)
        smallest = np.min([meta[name] for name in _LENGTHS], axis=0)
        return {
            "another lane or segment than its place says": (
                (meta["lane"] != lane)
                | (meta["segment"] != segment)
                | (backward != (direction == 1))
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

    def redraw(self, row, lane, direction, first) -> None:
        """Fresh orders, or targets too, as a function of seed and place."""
        options = self.options
        if not (options.resample_permutation or options.resample_targets):
            return
        seed = [options.seed, _SEED_RESAMPLE, *lane]
        seed += [direction, first]
        rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed)))
        old = dict(row)
        draw(row, self.manifest, rng, options.resample_targets, bool(direction))
        for name, value in row.items():
            old[name][...] = value

    def batch(self, arrays, real, first):
        """Record arrays [steps, rows, ...] -> `common.contract.schema.PRETRAIN_BATCH`."""
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
            ids[:, ~real] = manifest.pad_id
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
