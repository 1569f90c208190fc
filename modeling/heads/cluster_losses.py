"""Cross-entropy inside one cluster of a softmax, for the rows that are in it.

Letters: n rows, E width, S ids of the cluster, c rows of a chunk, C chunks.

The rows of the cluster are brought to the front and go through in chunks of
static shape, as many chunks as there are rows: nothing is dropped however many
there are, nothing is computed for the others, and only [c, S] logits are alive,
forward and backward. (The original's form for TPU has bins of fixed size, and
what finds no place there is lost.)
"""

import dataclasses

import tensorflow as tf

CHUNK = 256  # rows; fewer make slow matmuls, more are computed for nothing


def token_losses(
    hidden: tf.Tensor,
    table: tf.Tensor,
    bias: tf.Tensor,
    targets: tf.Tensor,
    active: tf.Tensor | None = None,
    chunk_size: int | None = None,
) -> tf.Tensor:
    """-log softmax(hidden table^T + bias) of the targets.

    Args:
      hidden: float32 [n, E].
      table: float32 [S, E].
      bias: float32 [S].
      targets: int32 [n], ids inside the cluster; anything where not active.
      active: bool [n], the rows that count; None = all.
      chunk_size: c; None = `CHUNK`, or all rows at once without `active`.

    Returns:
      float32 [n], 0 where not active.
    """
    if active is None and chunk_size is None:
        logits = tf.matmul(hidden, table, transpose_b=True) + bias
        return tf.nn.sparse_softmax_cross_entropy_with_logits(targets, logits)
    rows = hidden.shape[0] or tf.shape(hidden)[0]
    chunk = chunk_size or CHUNK
    if isinstance(rows, int):
        chunk = min(chunk, rows)
    order, inverse, count = None, None, rows
    if active is not None:
        later = tf.cast(tf.logical_not(active), tf.int32)
        order = tf.argsort(later, stable=True)  # [n]
        inverse = tf.argsort(order)  # [n]
        count = rows - tf.reduce_sum(later)
        targets = tf.gather(tf.where(active, targets, 0), order)
    made = _Rows(rows, chunk, count, order, inverse, targets)

    @tf.custom_gradient
    def run(hidden, table, bias):
        def gradient(upstream):
            return made.gradients(hidden, table, bias, upstream)

        return made.losses(hidden, table, bias), gradient

    return run(hidden, tf.convert_to_tensor(table), tf.convert_to_tensor(bias))


@dataclasses.dataclass(frozen=True)
class _Rows:
    """Which rows count, and the two loops over their chunks.

    Attributes:
      rows: n.
      chunk: c.
      count: so many of the sorted rows count.
      order: int32 [n], the rows that count first; None = as they come.
      inverse: where each row stands in `order`.
      targets: int32 [n], sorted.
    """

    rows: int | tf.Tensor
    chunk: int
    count: int | tf.Tensor
    order: tf.Tensor | None
    inverse: tf.Tensor | None
    targets: tf.Tensor

    def _chunks(self, x):
        """[n, ...] sorted already -> [C, c, ...]."""
        surplus = -self.rows % self.chunk
        x = tf.pad(x, [[0, surplus]] + [[0, 0]] * (x.shape.rank - 1))
        return tf.reshape(x, [-1, self.chunk, *x.shape[1:]])

    def _sorted(self, x):
        return x if self.order is None else tf.gather(x, self.order)

    def _unsorted(self, chunks):
        """[C, c, ...] -> [n, ...] in the rows' own order."""
        flat = tf.reshape(chunks, [-1, *chunks.shape[2:]])[: self.rows]
        return flat if self.inverse is None else tf.gather(flat, self.inverse)

    def _weights(self, i):
        """float32 [c], 1 for the rows of chunk i that count."""
        place = i * self.chunk + tf.range(self.chunk)
        return tf.cast(place < self.count, tf.float32)

    def _loop(self, body, *start):
        trips = -(-self.count // self.chunk)
        return tf.while_loop(
            lambda i, *_: i < trips,
            body,
            (tf.constant(0), *start),
            parallel_iterations=1,
        )[1:]

    def _array(self, shape):
        """What chunks are written to; those never written are zeros."""
        size = -(-self.rows // self.chunk)
        return tf.TensorArray(tf.float32, size=size, element_shape=shape)

    def losses(self, hidden, table, bias):
        """float32 [n]."""
        hidden = self._chunks(self._sorted(hidden))
        targets = self._chunks(self.targets)

        def body(i, found):
            logits = tf.matmul(hidden[i], table, transpose_b=True) + bias
            own = tf.nn.sparse_softmax_cross_entropy_with_logits(
                targets[i], logits
            )  # [c]
            return i + 1, found.write(i, own * self._weights(i))

        (found,) = self._loop(body, self._array([self.chunk]))
        return self._unsorted(found.stack())

    def gradients(self, hidden, table, bias, upstream):
        """Of the losses times `upstream` [n]: ([n, E], [S, E], [S])."""
        width = hidden.shape[1]
        hidden = self._chunks(self._sorted(hidden))
        upstream = self._chunks(self._sorted(upstream))
        targets = self._chunks(self.targets)

        def body(i, d_hidden, d_table, d_bias):
            logits = tf.matmul(hidden[i], table, transpose_b=True) + bias
            error = tf.nn.softmax(logits)
            error -= tf.one_hot(targets[i], table.shape[0])
            error *= (upstream[i] * self._weights(i))[:, tf.newaxis]  # [c, S]
            d_hidden = d_hidden.write(i, tf.matmul(error, table))
            d_table += tf.matmul(error, hidden[i], transpose_a=True)
            return i + 1, d_hidden, d_table, d_bias + tf.reduce_sum(error, 0)

        d_hidden, d_table, d_bias = self._loop(
            body,
            self._array([self.chunk, width]),
            tf.zeros_like(table),
            tf.zeros_like(bias),
        )
        return self._unsorted(d_hidden.stack()), d_table, d_bias
