"""Fresh orders and targets for stored records.

`--resample_permutation` keeps the stored targets and draws their order again;
`--resample_targets` draws the targets again, too, by the builder's own rules.
"""

import types

import numpy as np

from common.errors import UserError
from data.pretraining.manifest import PretrainingManifest
from data.pretraining.sampling import balanced_spans, record_arrays
from data.pretraining.sampling import segments as segments_lib
from data.pretraining.sampling.token_stream import split_long_words


def check_sampler(manifest: PretrainingManifest, **asked: bool) -> None:
    """Refuses draws that have other rules than the builder's.

    Args:
      **asked: `resample_permutation`, `resample_targets`.

    Raises:
      UserError: one is asked for, of data of another sampler than ours.
    """
    sampler = manifest.options["sampler"]
    # "context", a rule of before, had orders that are drawn as today's.
    able = {"balanced": tuple(asked), "context": ("resample_permutation",)}
    changed = [
        n for n, v in asked.items() if v and n not in able.get(sampler, ())
    ]
    if changed:
        raise UserError(
            f"--{changed[0]}: wanted data of --sampler=balanced, found "
            f"{manifest.data_dir} of --sampler={sampler}, whose rules are "
            "others; leave the flag out, or build the data with "
            "--num_passes for more draws"
        )


def part_lengths(meta: np.ndarray) -> tuple[np.ndarray, ...]:
    """Tokens of the reuse part, of A and of B: int64 each, like `meta`."""
    names = ("reuse_tokens", "a_tokens", "b_tokens")
    return tuple(meta[name].astype(np.int64) for name in names)


def targets_of(row: dict[str, np.ndarray]) -> np.ndarray:
    """bool [n, T]: the stored targets of n records."""
    positions, count = row["target_positions"], row["meta"]["targets"]
    n, seq_len = row["input_ids"].shape
    hot = np.zeros((n, seq_len), bool)
    used = np.arange(positions.shape[1]) < count[:, None]
    where = np.nonzero(used)
    hot[where[0], positions[where]] = True
    return hot


def word_starts_of(ids, table: np.ndarray, backward: bool) -> np.ndarray:
    """bool like `ids` (1-D text): where a unit of spans starts."""
    starts = table[ids]
    if backward:  # a word's last piece comes first
        starts = np.roll(starts, 1)
    starts[0] = True
    return split_long_words(starts)


def draw(
    row, manifest: PretrainingManifest, rng, fresh_targets: bool, backward: bool
):
    """Draws orders (and targets) of n records of one lane, in place."""
    built = types.SimpleNamespace(**manifest.options)
    shape, meta = record_arrays.Shape.of(built), row["meta"]
    is_target = targets_of(row)
    if fresh_targets:
        is_target = _draw_targets(row, manifest, shape, rng, backward)
    ranks = record_arrays.order(is_target, part_lengths(meta), shape, rng)
    drawn = {"input_ids": row["input_ids"], "ranks": ranks}
    if fresh_targets:
        drawn |= record_arrays.slots(is_target, manifest.num_predict)
        meta = meta.copy()
        meta["targets"] = drawn.pop("targets")
        drawn["meta"] = meta
    if manifest.options["materialize_masks"]:
        drawn |= record_arrays.materialize(
            row | drawn | {"is_target": is_target}, only_masks=True
        )
    for name, value in drawn.items():
        row[name] = value.reshape(row[name].shape)


def _draw_targets(
    row, manifest: PretrainingManifest, shape, rng, backward: bool
):
    """Fresh targets bool [n, T] by the rule that the data were built with."""
    meta, seq_len = row["meta"], manifest.seq_len
    n = len(meta)
    reuse, a_len, b_len = part_lengths(meta)
    table = manifest.word_starts
    if manifest.options["span_unit"] != "word":
        table = np.ones_like(table)
    text = row["input_ids"].reshape(-1).astype(np.int64)
    starts = word_starts_of(text, table, backward)
    start = np.arange(n, dtype=np.int64) * seq_len
    a = start + manifest.reuse_len
    zeros = np.zeros(n, np.int64)
    windows = segments_lib.Segments(
        start, reuse, a, a_len, a + a_len + 1, b_len, zeros, zeros
    )
    token_places = segments_lib.places(windows, seq_len, manifest.reuse_len)
    inside = np.zeros((n, seq_len), bool)
    inside.reshape(-1)[token_places.position] = starts[token_places.position]
    return balanced_spans.draw_targets(
        inside,
        windows,
        manifest.reuse_len,
        shape.num_predict,
        shape.spans,
        rng,
    )
