"""Segments -> the arrays of their records: ids, targets, orders."""

import dataclasses

import numpy as np

from common.contract.symbols import SymbolIds
from data.pretraining.record import FLAG_DOCUMENT, META
from data.pretraining.sampling import balanced_spans, permutation
from data.pretraining.sampling import segments as segments_lib
from data.pretraining.sampling.balanced_spans import SpanOptions
from data.pretraining.sampling.segments import Segments
from data.pretraining.sampling.token_stream import Stream

CHUNK = 1024  # segments made at once; keeps the arrays in the cache


@dataclasses.dataclass(frozen=True)
class Shape:
    """The numbers that sampling and layout depend on."""

    seq_len: int
    reuse_len: int
    num_predict: int
    perm_size: int
    order_context: bool
    functional_as_context: bool
    spans: SpanOptions

    @classmethod
    def of(cls, options) -> "Shape":
        """From `BuildOptions`, or what has a manifest's under these names."""
        names = [f.name for f in dataclasses.fields(cls) if f.name != "spans"]
        of_spans = [f.name for f in dataclasses.fields(SpanOptions)]
        drawn = {name: getattr(options, name) for name in of_spans}
        values = {name: getattr(options, name) for name in names}
        return cls(**values, spans=SpanOptions(**drawn))


def draw_targets(
    stream: Stream,
    segments: Segments,
    shape: Shape,
    rng: np.random.Generator,
) -> np.ndarray:
    """Targets of n segments: bool [n, T], never functional or padding."""
    starts = segments_lib.gather_words(
        stream, segments, shape.seq_len, shape.reuse_len
    )
    return balanced_spans.draw_targets(
        starts, segments, shape.reuse_len, shape.num_predict, shape.spans, rng
    )


def order(
    is_target: np.ndarray,
    lengths: tuple[np.ndarray, ...],
    shape: Shape,
    rng: np.random.Generator,
) -> np.ndarray:
    """Draws ranks int16 [n, T] for given targets.

    Args:
      is_target: bool [n, T].
      lengths: tokens of the reuse part, of A and of B, each int [n].
    """
    _, a_len, b_len = lengths
    ordered = is_target.copy()
    if shape.order_context:
        sizes = (shape.seq_len, shape.reuse_len)
        ordered |= segments_lib.layout(*lengths, *sizes).input_mask
    row = np.flatnonzero(a_len > 0)
    functional = segments_lib.functional_places(
        a_len[row], b_len[row], shape.reuse_len
    )
    for k in range(segments_lib.FUNCTIONAL):
        ordered[row, functional[:, k]] = not shape.functional_as_context
    return permutation.draw_ranks(
        ordered, shape.reuse_len, rng, shape.perm_size
    )


def make_arrays(
    stream: Stream,
    segments: Segments,
    shape: Shape,
    symbols: SymbolIds,
    rng: np.random.Generator,
) -> dict[str, np.ndarray]:
    """The record arrays of n segments, `meta` without lane numbers."""
    is_target = draw_targets(stream, segments, shape, rng)
    lengths = (segments.reuse, segments.a_len, segments.b_len)
    ranks = order(is_target, lengths, shape, rng)
    ids = segments_lib.gather(
        stream, segments, shape.seq_len, shape.reuse_len, symbols
    )
    return pack(ids, is_target, ranks, segments, shape.num_predict)


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
