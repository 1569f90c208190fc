"""Short rows in one: unpadding on shapes that are known.

    rows      [ a a a . . ]      packed  [ a a a b b ]   place of b's first: 3
              [ b b . . . ]              [ c c c c . ]
              [ c c c c . ]

An encoder reads the packed rows, where a token sees its own row's tokens only
and keeps its position. Distances stay where a row has no gap between tokens.
The output is laid out as the rows were, so that heads and losses know nothing
of it and a batch gives what it gives unpacked.

Rows go where the smallest room still takes them (greedy best fit), the longest
first. Letters: N rows of T tokens, R packed rows, D model.
"""

from typing import NamedTuple

import tensorflow as tf


class Packing(NamedTuple):
    """Where every token goes."""

    # int32 [R, T], place of a packed token in the rows laid end to end, -1 =
    # none
    source: tf.Tensor
    # int32 [N, T], place of a row's token in the packed rows laid end to end;
    # that of padding means nothing
    place: tf.Tensor

    def pack(self, x: tf.Tensor) -> tf.Tensor:
        """[N, T] -> [R, T], 0 where there is no token.

        packed[r, t] = x.flat[source[r, t]] if source[r, t] >= 0 else 0
        """
        tokens = tf.gather(tf.reshape(x, [-1]), tf.maximum(self.source, 0))
        return tf.where(self.source >= 0, tokens, tf.zeros_like(tokens))

    def documents(self) -> tf.Tensor:
        """int32 [R, T]: the row that a packed token is of, -1 = none."""
        return tf.math.floordiv(self.source, tf.shape(self.place)[1])

    def positions(self) -> tf.Tensor:
        """int32 [R, T]: where a packed token stood in its row."""
        return tf.math.floormod(
            tf.maximum(self.source, 0), tf.shape(self.place)[1]
        )

    def unpack(self, states: tf.Tensor) -> tf.Tensor:
        """[R, T, D] -> [N, T, D]; what stands in padding means nothing.

        rows[n, t] = states[place[n, t] // T, place[n, t] % T]
        """
        source, place, width = self.source, self.place, states.shape[-1]

        @tf.custom_gradient
        def run(states):
            rows = tf.gather(tf.reshape(states, [-1, width]), place)

            def gradient(upstream):
                # No two tokens share a place: the opposite is a gather, too.
                flat = tf.reshape(upstream, [-1, width])
                moved = tf.gather(flat, tf.maximum(source, 0))
                real = tf.cast(source >= 0, moved.dtype)
                return moved * real[..., tf.newaxis]

            return rows, gradient

        return run(states)


def best_fit(
    lengths: tf.Tensor, rows: int, width: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Greedy best fit of int32 [N] lengths in the given order.

    Each goes where the smallest room still takes it, the first of equal ones.
    int32 [N] twice: packed row and first place in it, -1 where none has room.
    """
    number = tf.size(lengths)
    none = tf.constant(-1)

    def put(i, room, row, first):
        length = lengths[i]
        fits = room >= length
        at = tf.argmin(tf.where(fits, room, width + 1), 0, tf.int32)
        has_room = tf.reduce_any(fits)
        row = row.write(i, tf.where(has_room, at, none))
        first = first.write(i, tf.where(has_room, width - room[at], none))
        taken = tf.where(has_room & (tf.range(rows) == at), length, 0)
        return i + 1, room - taken, row, first

    _, _, row, first = tf.while_loop(
        lambda i, *_: i < number,
        put,
        (
            tf.constant(0),
            tf.fill([rows], width),
            # Two: a loop that is run eagerly writes into what it was given.
            tf.TensorArray(tf.int32, number, element_shape=[]),
            tf.TensorArray(tf.int32, number, element_shape=[]),
        ),
        maximum_iterations=number,
        parallel_iterations=1,
    )
    return row.stack(), first.stack()


class Places(NamedTuple):
    """Rows in as few packed ones as best fit finds; see `find_places`."""

    real: tf.Tensor  # bool [N, T]
    row: tf.Tensor  # int32 [N], as `best_fit` gives them
    first: tf.Tensor  # int32 [N], as `best_fit` gives them
    needed: tf.Tensor  # int32 scalar, packed rows with a token

    def packing(self, rows: int | tf.Tensor) -> Packing:
        """As `rows` packed ones, at least `needed`."""
        shape = tf.shape(self.real)
        width, size = shape[1], shape[0] * shape[1]
        rank = tf.cumsum(tf.cast(self.real, tf.int32), 1, exclusive=True)
        start = self.row * width + self.first  # [N]
        packed_index = tf.where(self.real, start[:, tf.newaxis] + rank, 0)
        # Padding goes to a place behind the last.
        to = tf.where(self.real, packed_index, rows * width)
        source = tf.scatter_nd(
            tf.reshape(to, [-1, 1]), tf.range(size) + 1, [rows * width + 1]
        )
        source = tf.reshape(source[:-1] - 1, [rows, -1])
        known = rows if isinstance(rows, int) else None
        source.set_shape([known, self.real.shape[1]])
        return Packing(source, packed_index)


def find_places(real: tf.Tensor) -> Places:
    """Packs rows of tokens, bool [N, T] with N known, the longest first."""
    rows, width = real.shape[0], tf.shape(real)[1]
    lengths = tf.reduce_sum(tf.cast(real, tf.int32), 1)  # [N]
    order = tf.argsort(lengths, direction="DESCENDING", stable=True)
    row, first = best_fit(tf.gather(lengths, order), rows, width)
    back = tf.math.invert_permutation(order)
    row, first = tf.gather(row, back), tf.gather(first, back)
    return Places(real, row, first, tf.reduce_max(row) + 1)


def row_counts(rows: int, most: int) -> list[int]:
    """Up to about `most` rising numbers of packed rows, the last is `rows`."""
    step = -(-rows // most)
    return [*range(step, rows, step), rows]
