"""Token ids -> model inputs inside the graph: what `data/` does offline.

The layouts are those of `data.finetuning.features.pair_features` (`A SEP B SEP CLS`, padded on the
left) and `data.finetuning.squad.features` (windows `P SEP Q SEP CLS`, padded on the
right), and both again with CLS first; tests compare them with the offline code.
"""

from typing import NamedTuple

import tensorflow as tf

from common.contract import symbols
from data.finetuning.features.pair_features import SEGMENT_IDS


class Features(NamedTuple):
    """Inputs of a task model."""

    input_ids: tf.Tensor  # int32 [B, T]
    segment_ids: tf.Tensor  # int32 [B, T]
    input_mask: tf.Tensor  # int32 [B, T]
    lengths: tf.Tensor  # int32 [B], real tokens
    truncated: tf.Tensor  # bool [B], some text was cut


class Windows(NamedTuple):
    """Windows of a batch of paragraphs, all in one list."""

    row: tf.Tensor  # int32 [W], the paragraph of each window
    start: tf.Tensor  # int32 [W], its first token in the paragraph
    length: tf.Tensor  # int32 [W], its paragraph tokens
    index: tf.Tensor  # int32 [W], its number within the paragraph
    starts: tf.RaggedTensor  # int32 [B, (windows of the row)]
    lengths: tf.RaggedTensor  # int32 [B, (windows of the row)]


def shared_lengths(lengths: tf.Tensor, room: int | tf.Tensor) -> tf.Tensor:
    """`data.finetuning.features.pair_features.shared_lengths` for int32 [B, S] at once.

    `room` is one number or int32 [B, 1].

    The longest gives a token at a time, the last of equally long ones first:
    all are cut to one level, and what is left over goes to the first ones that
    were cut.
    """
    levels = tf.range(tf.reduce_max(room) + 1)  # [most room + 1]
    used = tf.reduce_sum(
        tf.minimum(lengths[:, :, tf.newaxis], levels), 1
    )  # [B, room + 1]
    fits = tf.cast(used <= room, tf.int32)
    level = tf.reduce_sum(fits, 1, keepdims=True) - 1  # [B, 1]
    kept = tf.minimum(lengths, level)
    left = room - tf.reduce_sum(kept, 1, keepdims=True)
    cut = tf.cast(lengths > level, tf.int32)
    rank = tf.cumsum(cut, 1)
    return kept + cut * tf.cast(rank <= left, tf.int32)


def join_segments(
    parts: list[tf.RaggedTensor],
    max_length: int,
    ids: symbols.SymbolIds,
    pad_to: int | None = None,
    keep_blank: bool = True,
    layout: str = symbols.CLS_LAST,
) -> Features:
    """`A SEP B SEP ... CLS`, cut to `max_length` and padded on the left.

    With CLS first `CLS A SEP B SEP ...`, padded on the right; `layout` is one of
    `common.contract.symbols.LAYOUTS`. Parts are int32 [B, (pieces)] per segment,
    `pad_to` is T (None = the longest row).
    With `keep_blank` an empty segment after the first keeps its SEP; else see
    `data.finetuning.features.pair_features.without_blank`.
    """
    lengths = tf.stack(
        [tf.cast(p.row_lengths(), tf.int32) for p in parts], 1
    )  # [B, S]
    there = tf.ones_like(lengths)  # [B, S]: the segment has a SEP
    if not keep_blank:
        there = tf.concat(
            [there[:, :1], tf.cast(lengths[:, 1:] > 0, tf.int32)], 1
        )
    # Two texts have these symbols between them, the last one has SEP behind it.
    sep, *more = symbols.between(layout, ids)
    later = tf.cumsum(there, 1, exclusive=True, reverse=True)  # [B, S]
    follows = there * tf.minimum(later, 1)
    marks = tf.reduce_sum(there + follows * len(more), 1, keepdims=True)
    room = max_length - 1 - marks
    kept = shared_lengths(lengths, room)
    batch = tf.shape(lengths)[0]
    # Segments that are there take the ids in turn.
    kinds = _segments(tf.cumsum(there, 1) - 1, layout)  # [B, S]
    last = layout == symbols.CLS_LAST
    pieces, segments = [], []
    if not last:
        pieces.append(column(ids.cls, batch))
        segments.append(column(symbols.SEGMENT_A, batch))
    for i, part in enumerate(parts):
        head = first_of_rows(part, kept[:, i])
        ends = [(sep, there), *((mark, follows) for mark in more)]
        both = [first_of_rows(column(m, batch), n[:, i]) for m, n in ends]
        both = tf.concat([head, *both], 1)
        pieces.append(both)
        kind = tf.gather(kinds[:, i], both.value_rowids())
        segments.append(both.with_values(kind))
    if last:
        pieces.append(column(ids.cls, batch))
        segments.append(column(symbols.SEGMENT_CLS, batch))
    tokens = tf.concat(pieces, 1)
    total = tf.cast(tokens.row_lengths(), tf.int32)
    length = tf.reduce_max(tf.concat([total, [1]], 0))
    length = length if pad_to is None else pad_to
    pad = pad_left if last else pad_right
    blank = symbols.SEGMENT_PAD if last else symbols.SEGMENT_A
    return Features(
        pad(tokens, length, 0),
        pad(tf.concat(segments, 1), length, blank),
        pad(filled(tokens, 1), length, 0),
        total,
        tf.reduce_any(kept < lengths, 1),
    )


def _segments(numbers: tf.Tensor, layout: str) -> tf.Tensor:
    """Segment ids of texts by their numbers in the row, of the same shape."""
    if layout == symbols.CLS_LAST:
        return tf.gather(SEGMENT_IDS, numbers)
    if symbols.has_one_segment(layout):
        return tf.zeros_like(numbers)
    return numbers


def doc_windows(counts: tf.Tensor, room: tf.Tensor, doc_stride: int) -> Windows:
    """`data.finetuning.squad.features.doc_windows` of a batch.

    Of int32 [B] paragraph tokens and [B] of them per window.
    """
    stride = tf.minimum(room, doc_stride)
    more = tf.maximum(counts - room, 0)
    number = 1 + (more + stride - 1) // stride  # [B]
    row = tf.repeat(tf.range(tf.size(counts)), number)
    index = tf.range(tf.size(row)) - tf.gather(
        tf.cumsum(number, exclusive=True), row
    )
    start = index * tf.gather(stride, row)
    length = tf.minimum(tf.gather(room, row), tf.gather(counts, row) - start)

    def ragged(values):
        return tf.RaggedTensor.from_row_lengths(values, number, validate=False)

    return Windows(row, start, length, index, ragged(start), ragged(length))


def first_of_rows(rows: tf.RaggedTensor, counts: tf.Tensor) -> tf.RaggedTensor:
    """The first `counts[b]` values of row b."""
    return slices_of_rows(
        rows,
        tf.range(rows.nrows(out_type=tf.int32)),
        tf.zeros_like(counts),
        counts,
    )


def slices_of_rows(
    rows: tf.RaggedTensor,
    row: tf.Tensor,
    start: tf.Tensor,
    length: tf.Tensor,
) -> tf.RaggedTensor:
    """`[rows[r][s : s + n] for r, s, n in zip(row, start, length)]`."""
    begin = tf.gather(tf.cast(rows.row_starts(), tf.int32), row) + start
    source = tf.repeat(begin - tf.cumsum(length, exclusive=True), length)
    source += tf.range(tf.size(source))
    return tf.RaggedTensor.from_row_lengths(
        tf.gather(rows.values, source),
        tf.cast(length, tf.int64),
        validate=False,
    )


def pad_left(
    rows: tf.RaggedTensor, length: int | tf.Tensor, value: int
) -> tf.Tensor:
    """[B, length] with the rows at the right end."""
    dense = rows.to_tensor(default_value=value)  # [B, longest]
    gap = length - tf.shape(dense)[1]
    dense = tf.pad(dense, [[0, 0], [0, gap]], constant_values=value)
    # Turning a row around its own length moves the padding to the left.
    counts = tf.cast(rows.row_lengths(), tf.int32)[:, tf.newaxis]
    source = (tf.range(length)[tf.newaxis] + counts) % length
    return tf.gather(dense, source, batch_dims=1)


def pad_right(
    rows: tf.RaggedTensor, length: int | tf.Tensor, value: int
) -> tf.Tensor:
    """[B, length] with the rows at the left end."""
    dense = rows.to_tensor(default_value=value)  # [B, longest]
    gap = length - tf.shape(dense)[1]
    return tf.pad(dense, [[0, 0], [0, gap]], constant_values=value)


def column(value: int, batch: tf.Tensor) -> tf.RaggedTensor:
    """The value once in each of `batch` rows."""
    return tf.RaggedTensor.from_row_lengths(
        tf.fill([batch], value), tf.ones([batch], tf.int64), validate=False
    )


def filled(rows: tf.RaggedTensor, value: int) -> tf.RaggedTensor:
    """The value in every place of the rows."""
    return rows.with_values(tf.fill(tf.shape(rows.values), value))
