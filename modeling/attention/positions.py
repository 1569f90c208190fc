"""Relative positions: the sinusoid table, the relative shift, the factors.

Letters: B batch, T queries, Q query rows, M memory, K = M + T keys, R relative
positions, S directions, N heads, D model.
Column c of the table is the distance K - c, so query i and key j (distance
M + i - j) meet in column c = j + T - i. Transformer-XL, appendix B.

Without the shift, since the sines of a difference are products (Funnel-
Transformer, appendix A.2, has the form for TPU):

  a sin(i - j) + b cos(i - j)
    = (a sin i + b cos i) cos j + (b sin i - a cos i) sin j

`turned` makes the two brackets of a query row, `key_factors` what they are
multiplied with; the distances have to be unclipped.
"""

import dataclasses

import tensorflow as tf

from modeling.ops.shapes import sizes

# Of the shifts on TPU. Rows of a bfloat16 tile; bases of the digits that
# selects go by.
TILE_ROWS = 8
_TILE_BASE = 8
_ROW_BASE = 8


def num_positions(query_len: int, key_len: int, attn_type: str) -> int:
    """R: K + T for "bi", K + 1 for "uni" (no key lies ahead)."""
    return key_len + (query_len if attn_type == "bi" else 1)


def sinusoid_table(
    query_len: int,
    key_len: int,
    d_model: int,
    attn_type: str = "bi",
    clamp_len: int = -1,
    bi_data: bool = False,
) -> tf.Tensor:
    """Encodings of the distances K, K-1, ..., float32 under any policy.

    T = 2, K = 3 gives the distances 3 2 1 0 -1 for "bi" and 3 2 1 0 for "uni".
    [S, R, D], S = 2 with `bi_data` else 1: D/2 sines, then D/2 cosines.

    Args:
      d_model: D, even.
      attn_type: "bi" or "uni".
      clamp_len: distances are clipped to +- this when > 0.
      bi_data: add a second table with the sign of the distance flipped, for
        the backward half of the batch.
    """
    count = num_positions(query_len, key_len, attn_type)
    distances = tf.cast(key_len - tf.range(count), tf.float32)  # [R]
    if bi_data:
        distances = tf.stack([distances, -distances])  # [2, R]
    else:
        distances = distances[tf.newaxis]  # [1, R]
    if clamp_len > 0:
        distances = tf.clip_by_value(distances, -clamp_len, clamp_len)
    angles = _angles(distances, d_model)  # [S, R, D/2]
    return tf.concat([tf.sin(angles), tf.cos(angles)], -1)  # [S, R, D]


def key_factors(
    key_len: int | tf.Tensor, d_model: int, bi_data: bool = False
) -> tf.Tensor:
    """What `turned` rows are multiplied with, for the keys 0..K-1.

    float32 [S, K, D] under any policy, S = 2 with `bi_data` else 1: D/2
    cosines, then D/2 sines. Both directions have the same numbers; dropout
    makes them differ.
    """
    angles = _angles(tf.range(key_len), d_model)  # [K, D/2]
    factors = tf.concat([tf.cos(angles), tf.sin(angles)], -1)  # [K, D]
    return tf.tile(factors[tf.newaxis], [2 if bi_data else 1, 1, 1])


def turned(
    a: tf.Tensor, b: tf.Tensor, places: tf.Tensor, directions: int = 1
) -> tf.Tensor:
    """Query rows [N, B, Q, D] whose products with `key_factors` are scores.

    The numbers are those of the sinusoid table times (a, b), by key.

    Args:
      a: [N, B, Q, D/2], what the sines of the distances are weighted with.
      b: the same of the cosines.
      places: int [B or 1, Q], i of each row, counted as the keys are (M + its
        place in the segment).
      directions: S; of two the second half of the batch has the sign of its
        distances flipped.
    """
    angles = _angles(places, 2 * a.shape[-1])  # [B or 1, Q, D/2]
    sine, cosine = (tf.cast(f(angles), a.dtype) for f in (tf.sin, tf.cos))
    if directions == 2:
        half = sizes(a)[1] // 2
        sign = tf.concat([tf.ones([half]), -tf.ones([half])], 0)  # [B]
        a *= tf.cast(sign, a.dtype)[:, tf.newaxis, tf.newaxis]
    return tf.concat([a * sine + b * cosine, b * sine - a * cosine], -1)


def _angles(places, d_model):
    """Of each number, by the D/2 frequencies: float32 [..., D/2]."""
    exponents = tf.range(0, d_model, 2, dtype=tf.float32) / d_model
    frequencies = 1.0 / tf.pow(10000.0, exponents)  # [D/2]
    return tf.cast(places, tf.float32)[..., tf.newaxis] * frequencies


def shift_all(
    scores: tf.Tensor, key_len: int, method: str = "gather"
) -> tf.Tensor:
    """Aligns position scores of all T queries with their keys.

    Row i of the result is `scores[..., i, T - i : T - i + K]`. Read as one
    line of memory, that is a fixed stride of R - 1 after the first T numbers.
    For "uni" the columns ahead of a query hold numbers of its neighbour, or
    zeros; the causal mask hides them. [..., T, K] by key.

    Args:
      scores: [..., T, R] by table column.
      method: "radix" moves whole tiles of rows on TPU, where that fixed stride
        is a slow way through memory; equal results but for columns ahead. Known
        sizes only.
    """
    *lead, query_len, count = sizes(scores)
    known = all(isinstance(n, int) for n in (query_len, count, key_len))
    tiles = known and query_len % TILE_ROWS == 0
    if method == "radix" and tiles and count <= query_len + key_len:
        return _shift_tiles(scores, key_len)
    line = tf.reshape(scores, [*lead, query_len * count])
    line = line[..., query_len:]  # [..., T * (R - 1)]
    scores = tf.reshape(line, [*lead, query_len, count - 1])
    return scores[..., :key_len]  # [..., T, K]


def shift_from(
    scores: tf.Tensor, first: int | tf.Tensor, key_len: int
) -> tf.Tensor:
    """`shift_all` of a few consecutive queries that stand anywhere.

    Row i of the result, [N, B, Q, K] by key, is
    `scores[..., i, first - i : first - i + K]` of scores [N, B, Q, R] by table
    column; `first` is the column of key 0 in row 0.
    """
    rows = [
        tf.slice(
            scores,
            [0, 0, row, first - row],
            [*scores.shape[:2], 1, key_len],
        )
        for row in range(scores.shape[2])
    ]
    return tf.concat(rows, 2)


def _shift_tiles(scores, key_len):
    """`shift_all` in two steps, for TPU.

    A tile of rows moves as one by what its last row needs (static slices), the
    row's place in the tile decides the rest (selects). Columns that a short
    table ("uni") does not have are zeros.
    """
    query_len, count = sizes(scores)[-2:]
    rest = TILE_ROWS - 1
    width = key_len + rest
    firsts = range(0, query_len, TILE_ROWS)
    places = rest - tf.range(query_len)[:, tf.newaxis] % TILE_ROWS  # [T, 1]
    digits = _digits(rest, key_len, width, _TILE_BASE)

    def taken(start):
        """Columns of a tile that the table has from `start` on."""
        return min(width, count - start)

    @tf.custom_gradient
    def shift(x):
        tiles = []
        for first in firsts:
            start = query_len - first - rest
            rows = x[..., first : first + TILE_ROWS, start : start + width]
            tiles.append(_pad_columns(rows, 0, width - taken(start)))
        x = _move(tf.concat(tiles, -2), digits, places)

        def gradient(dy):
            dy = _move_back(dy, digits, places)
            tiles = []
            for first in firsts:
                left = query_len - first - rest
                width_there = taken(left)
                rows = dy[..., first : first + TILE_ROWS, :width_there]
                tiles.append(
                    _pad_columns(rows, left, count - left - width_there)
                )
            return tf.concat(tiles, -2)

        return x, gradient

    return shift(scores)


def shift_at(
    scores: tf.Tensor,
    positions: tf.Tensor,
    query_len: int,
    key_len: int,
    method: str = "gather",
) -> tf.Tensor:
    """Aligns position scores of chosen queries with their keys.

    [N, B, P, K] by key: row p is `scores[..., p, T - i : T - i + K]`.

    Args:
      scores: [N, B, P, R] by table column.
      positions: int32 [B, P], the place i of each row in the segment.
      method: "gather" (fast on CPU and GPU) or "radix" (fast on TPU); equal
        results.
    """
    offsets = query_len - positions  # [B, P], 1..T
    if method == "radix":
        return _shift_radix(scores, offsets, query_len, key_len)
    if method != "gather":
        raise ValueError(
            f"`method` must be 'gather' or 'radix', received {method!r}"
        )
    return _shift_gather(scores, offsets, key_len)


def _shift_gather(scores, offsets, key_len):
    """One gather forward; its gradient is one gather, too (no scatter).

    Heads go last: a gather copies slice by slice, and one of N numbers takes
    hardly longer than one of a single number.
    """
    n, b, p, count = sizes(scores)
    rows = tf.range(b * p)[:, tf.newaxis]  # [B*P, 1]
    offsets = tf.reshape(offsets, [-1, 1])  # [B*P, 1]

    def heads_last(x):
        return tf.transpose(tf.reshape(x, [n, -1]))

    def heads_first(x, width):
        return tf.reshape(tf.transpose(x), [n, b, p, width])

    @tf.custom_gradient
    def shift(x):
        columns = tf.minimum(offsets + tf.range(key_len), count - 1)
        index = rows * count + columns  # [B*P, K]
        y = tf.gather(heads_last(x), tf.reshape(index, [-1]))

        def gradient(dy):
            columns = tf.range(count) - offsets  # [B*P, R]
            inside = (columns >= 0) & (columns < key_len)
            # The last row is the zeros that every place outside reads.
            dy = tf.pad(heads_last(dy), [[0, 1], [0, 0]])
            index = tf.where(inside, rows * key_len + columns, b * p * key_len)
            dx = tf.gather(dy, tf.reshape(index, [-1]))
            return heads_first(dx, count)

        return heads_first(y, key_len), gradient

    return shift(scores)


@dataclasses.dataclass(frozen=True)
class _Digit:
    """One digit of a shift."""

    base: int
    step: int  # what one unit of the digit shifts
    largest: int  # value of the digit
    width: int  # columns before the first digit's shift, then what was left
    new_width: int  # columns after, K for the last digit

    def of(self, offsets):
        """The digit of each offset."""
        return offsets // self.step % self.base


def _digits(largest, key_len, width, base) -> list[_Digit]:
    """The digits of an offset up to `largest`, the highest first."""
    step = 1
    while step * base <= largest:
        step *= base
    rest = largest  # the largest offset still to come
    digits = []
    while step >= 1:
        later = step - 1  # what later digits can still shift past the keys
        new_width = min(key_len + later, width)
        most = min(rest // step, base - 1)
        digits.append(_Digit(base, step, most, width, new_width))
        width, rest = new_width, later
        step //= base
    return digits


def _shift_radix(scores, offsets, query_len, key_len):
    """Shifts by the digits of the offset, base 8: selects of static slices.

    The gradient shifts back in the same way; derived from the selects it would
    be sixteen padded tensors per digit instead of eight slices of one.
    """
    # Offsets are 1..T: one column less leaves 0..T-1, often a digit less.
    width = sizes(scores)[-1] - 1
    digits = _digits(query_len - 1, key_len, width, _ROW_BASE)
    offsets = offsets[tf.newaxis, ..., tf.newaxis] - 1  # [1, B, P, 1]

    @tf.custom_gradient
    def shift(x):
        def gradient(dy):
            return _pad_columns(_move_back(dy, digits, offsets), 1, 0)

        return _move(x[..., 1:], digits, offsets), gradient

    return shift(scores)


def _move(x, digits, offsets):
    """Each row to the left by its offset."""
    for d in digits:
        right = max(0, d.largest * d.step + d.new_width - d.width)
        starts = [value * d.step for value in range(d.largest + 1)]
        x = _select(
            _pad_columns(x, 0, right), d.of(offsets), starts, d.new_width
        )
    return x


def _move_back(dy, digits, offsets):
    """The transpose of `_move`: to the right, zeros elsewhere."""
    for d in reversed(digits):
        left = d.largest * d.step
        right = max(0, d.width - d.new_width)
        starts = [left - value * d.step for value in range(d.largest + 1)]
        dy = _select(
            _pad_columns(dy, left, right), d.of(offsets), starts, d.width
        )
    return dy


def _select(x, digit, starts, width):
    """Of each row `x[..., starts[digit] : starts[digit] + width]`."""
    result = x[..., starts[0] : starts[0] + width]
    for value in range(1, len(starts)):
        moved = x[..., starts[value] : starts[value] + width]
        result = tf.where(digit == value, moved, result)
    return result


def _pad_columns(x, left, right):
    if not left + right:
        return x
    return tf.pad(x, [[0, 0]] * (x.shape.rank - 1) + [[left, right]])
