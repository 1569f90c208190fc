"""The relative shift: position scores by table column -> by key.

Letters: B batch, T queries, Q query rows, P chosen ones, K keys, R relative
positions, N heads. The columns are those of `sinusoids`.
"""

import dataclasses

import tensorflow as tf

from modeling.ops.shapes import sizes

# Of the shifts on TPU. Rows of a bfloat16 tile; bases of the digits that
# selects go by.
TILE_ROWS = 8
_TILE_BASE = 8
_ROW_BASE = 8


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
