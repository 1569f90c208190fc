"""Segments -> the arrays of their records: ids, targets, orders."""

import types

import numpy as np

from common.contract.symbols import SymbolIds
from common.errors import UserError
from data.pretraining.manifest import FLAG_DOCUMENT, META, PretrainingManifest
from data.pretraining.options import BuildOptions
from data.pretraining.sampling import balanced_spans, permutation
from data.pretraining.sampling import segments as segments_lib
from data.pretraining.sampling.segments import Segments
from data.pretraining.sampling.token_stream import Stream, split_long_words

CHUNK = 1024  # segments made at once; keeps the arrays in the cache


def draw_targets(
    stream: Stream,
    segments: Segments,
    options: BuildOptions,
    rng: np.random.Generator,
) -> np.ndarray:
    """Targets of n segments: bool [n, T], never functional or padding."""
    starts = segments_lib.gather_words(
        stream, segments, options.seq_len, options.reuse_len
    )
    return balanced_spans.draw_targets(
        starts, segments, options.reuse_len, options.num_predict, options, rng
    )


def order(
    is_target: np.ndarray,
    lengths: tuple[np.ndarray, ...],
    options: BuildOptions,
    rng: np.random.Generator,
) -> np.ndarray:
    """Draws ranks int16 [n, T] for given targets bool [n, T].

    `lengths`: tokens of the reuse part, of A and of B, each int [n].
    """
    _, a_len, b_len = lengths
    ordered = is_target.copy()
    if options.order_context:
        sizes = (options.seq_len, options.reuse_len)
        ordered |= segments_lib.layout(*lengths, *sizes).input_mask
    row = np.flatnonzero(a_len > 0)
    functional = segments_lib.functional_places(
        a_len[row], b_len[row], options.reuse_len
    )
    for k in range(segments_lib.FUNCTIONAL):
        ordered[row, functional[:, k]] = not options.functional_as_context
    return permutation.draw_ranks(
        ordered, options.reuse_len, rng, options.perm_size
    )


def make_arrays(
    stream: Stream,
    segments: Segments,
    options: BuildOptions,
    symbols: SymbolIds,
    rng: np.random.Generator,
) -> dict[str, np.ndarray]:
    """The record arrays of n segments, `meta` without lane numbers."""
    is_target = draw_targets(stream, segments, options, rng)
    lengths = (segments.reuse, segments.a_len, segments.b_len)
    ranks = order(is_target, lengths, options, rng)
    ids = segments_lib.gather(
        stream, segments, options.seq_len, options.reuse_len, symbols
    )
    return pack(ids, is_target, ranks, segments, options.num_predict)


def slots(is_target: np.ndarray, num_predict: int) -> dict[str, np.ndarray]:
    """`target_positions` and the number of `targets` of each row."""
    positions, counts = permutation.positions_of(is_target, num_predict)
    return {"target_positions": positions, "targets": counts}


def pack(
    ids, is_target, ranks, segments: Segments, num_predict: int
) -> dict[str, np.ndarray]:
    """Puts drawn arrays into the form of a record."""
    drawn = slots(is_target, num_predict)
    n = len(segments)
    meta = np.zeros(n, META)
    meta["flags"] = segments.document * FLAG_DOCUMENT
    meta["reuse_tokens"] = segments.reuse
    meta["a_tokens"] = segments.a_len
    meta["b_tokens"] = segments.b_len
    meta["label"] = segments.label
    meta["targets"] = drawn["targets"]
    return {
        "input_ids": ids,
        "meta": meta,
        "ranks": ranks,
        "target_positions": drawn["target_positions"],
        "is_target": is_target,
    }


def _pack_bits(mask: np.ndarray) -> np.ndarray:
    return np.packbits(mask, axis=-1, bitorder="little")


def materialize(
    arrays: dict[str, np.ndarray], only_masks: bool = False
) -> dict[str, np.ndarray]:
    """Adds bit-packed `perm_mask` and `target_mapping`, or gives just them."""
    seq_len = arrays["ranks"].shape[1]
    mask = permutation.perm_mask(arrays["ranks"], arrays["is_target"])
    mapping = permutation.target_mapping(
        arrays["target_positions"], arrays["meta"]["targets"], seq_len
    )
    masks = {
        "perm_mask": _pack_bits(mask),
        "target_mapping": _pack_bits(mapping),
    }
    return masks if only_masks else arrays | masks


def check_sampler(manifest: PretrainingManifest, **asked: bool) -> None:
    """UserError: fresh draws are asked for, of data of another sampler's rules.

    `asked`: `resample_permutation`, `resample_targets`.
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
    """Draws orders (and targets) of n records of one lane, in place.

    `--resample_permutation` keeps the stored targets, `--resample_targets` draws
    them again by the builder's own rules.
    """
    built = types.SimpleNamespace(**manifest.options)
    meta = row["meta"]
    is_target = targets_of(row)
    if fresh_targets:
        is_target = _draw_targets(row, manifest, built, rng, backward)
    ranks = order(is_target, part_lengths(meta), built, rng)
    drawn = {"input_ids": row["input_ids"], "ranks": ranks}
    if fresh_targets:
        drawn |= slots(is_target, manifest.num_predict)
        meta = meta.copy()
        meta["targets"] = drawn.pop("targets")
        drawn["meta"] = meta
    if manifest.options["materialize_masks"]:
        drawn |= materialize(
            row | drawn | {"is_target": is_target}, only_masks=True
        )
    for name, value in drawn.items():
        row[name] = value.reshape(row[name].shape)


def _draw_targets(
    row, manifest: PretrainingManifest, built, rng, backward: bool
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
        inside, windows, built.reuse_len, built.num_predict, built, rng
    )
