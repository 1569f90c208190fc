"""Joins tokenized segments the way classification and RACE feed them.

Two segments, `max_length` 10, ids 3 = CLS, 4 = SEP:

    a = [11 12 13], b = [21 22]
    input_ids    0  0 11 12 13  4 21 22  4  3
    segment_ids  4  4  0  0  0  0  1  1  1  2
    input_mask   0  0  1  1  1  1  1  1  1  1

Padding is on the left, its input id is 0 and its segment id 4, as in the
original (whose mask is the other way round: 1 = padding). Only "same segment
or not" enters the model, so a third segment and further ones take any ids
that no other segment has.

Encoders that want CLS first get (layout "cls_first")

    input_ids    3 11 12 13  4 21 22  4  0  0
    segment_ids  0  0  0  0  0  1  1  1  0  0
    input_mask   1  1  1  1  1  1  1  1  0  0

where segments count up from 0 and padding is on the right, in segment 0. Other
layouts with CLS first have two symbols between two texts, or segment 0 alone.
"""

import dataclasses
from collections.abc import Sequence

from common.contract import symbols

# Ids of segments A, B, C, ...: 2 is CLS, 3 and 4 are padding.
SEGMENT_IDS = (symbols.SEGMENT_A, symbols.SEGMENT_B) + tuple(range(5, 35))
MAX_SEGMENTS = len(SEGMENT_IDS)


@dataclasses.dataclass(frozen=True)
class Sequence1D:
    """One model input before padding: ids and segment ids of equal length."""

    ids: list[int]
    segments: list[int]


def shared_lengths(lengths: Sequence[int], max_length: int) -> list[int]:
    """Lengths after dropping, one by one, a token of the longest segment.

    The last of equally long segments gives first. `[9, 1]` into 4 is `[3, 1]`;
    `[5, 5]` into 7 is `[4, 3]`; `[4, 4, 1]` into 6 is `[3, 2, 1]`.
    """
    kept = list(lengths)
    surplus = sum(kept) - max(0, max_length)
    while surplus > 0:
        top = max(kept)
        at_top = [i for i, n in enumerate(kept) if n == top]
        below = max((n for n in kept if n < top), default=0)
        # All levels that keep the order of "longest gives" at once.
        whole = min(top - below, surplus // len(at_top))
        if whole:
            for i in at_top:
                kept[i] -= whole
            surplus -= whole * len(at_top)
        else:
            for i in at_top[::-1][:surplus]:
                kept[i] -= 1
            surplus = 0
    return kept


def without_blank(parts: Sequence[Sequence[int]]) -> Sequence[Sequence[int]]:
    """The segments that a row has: an empty one after the first is none.

    As in the original, which gives an empty second text no SEP.
    """
    return [parts[0], *(p for p in parts[1:] if len(p))]


def join_segments(
    parts: Sequence[Sequence[int]],
    max_length: int,
    ids: symbols.SymbolIds,
    layout: str = symbols.CLS_LAST,
) -> Sequence1D:
    """`A SEP B SEP ... CLS` or `CLS A SEP B SEP ...`, cut to `max_length`.

    Of the token ids of 1 to 32 segments; an empty one keeps its SEP (see
    `without_blank`). Ids and segment ids: SEP belongs to the segment before it;
    CLS is 2, or 0 where it comes first. `layout` is one of
    `common.contract.symbols.LAYOUTS`. Raises ValueError: no segments, too many,
    or no room for the special symbols.
    """
    if not 1 <= len(parts) <= MAX_SEGMENTS:
        raise ValueError(
            f"`parts` must hold 1 to {MAX_SEGMENTS} segments, received "
            f"{len(parts)}"
        )
    between = symbols.between(layout, ids)
    needed = symbols.row_symbols(layout, len(parts))
    room = max_length - needed
    if room < 0:
        raise ValueError(
            f"`max_length` must be at least {needed} for {len(parts)} "
            f"segments, received {max_length}"
        )
    if len(parts) == 1:
        kept = [min(len(parts[0]), room)]
    else:
        kept = shared_lengths([len(p) for p in parts], room)
    last = layout == symbols.CLS_LAST
    tokens: list[int] = [] if last else [ids.cls]
    segments: list[int] = [] if last else [symbols.SEGMENT_A]
    kinds: Sequence[int] = SEGMENT_IDS if last else range(MAX_SEGMENTS)
    if symbols.has_one_segment(layout):
        kinds = (symbols.SEGMENT_A,) * MAX_SEGMENTS
    ends = [between] * (len(parts) - 1) + [(ids.sep,)]
    for part, length, end, segment in zip(
        parts, kept, ends, kinds, strict=False
    ):
        tokens += [*part[:length], *end]
        segments += [segment] * (length + len(end))
    if last:
        tokens.append(ids.cls)
        segments.append(symbols.SEGMENT_CLS)
    return Sequence1D(tokens, segments)


def padding(layout: str) -> dict:
    """Where a `FeatureTable` of rows in this layout is padded, and with what."""
    if layout == symbols.CLS_LAST:
        return {}
    return {"pad_left": False, "pad_segment": symbols.SEGMENT_A}
