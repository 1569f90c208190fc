"""Cross-entropy inside one cluster of a softmax, for the rows that are in it.

Letters: n rows, E width, S ids of the cluster, c rows of a chunk, C chunks,
k rows of one of them.

The rows of the cluster are brought to the front and go through in chunks, as
many as there are rows: nothing is dropped however many there are. (The
original's form for TPU has bins of fixed size, and what finds no place there is
lost.) On CPU and GPU a chunk has exactly the rows that are left, and the first,
which is nearly always the only one, keeps the gradient of its logits for the
backward pass. In a program that XLA compiles as a whole each chunk has c rows,
the last one filled up, and logits are made again: only [c, S] is alive.
"""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from modeling.ops import tied
from modeling.ops.shapes import static_only

# Rows of a chunk. Fewer make slow matmuls; where shapes are static, more are
# computed for nothing.
CHUNK = 256
# Logits of a chunk of exactly its rows: 256 MB.
LOGITS = 2**26


def chunk_rows(size: int) -> int:
    """c of a cluster of `size` ids, where a chunk has exactly its rows."""
    return max(CHUNK, LOGITS // size)


def token_losses(
    hidden: tf.Tensor,
    table: tf.Tensor | Callable[[], tf.Tensor],
    bias: tf.Tensor,
    targets: tf.Tensor,
    active: tf.Tensor | None = None,
    chunk_size: int | None = None,
    pieces: list[tf.Tensor] | None = None,
    dtype: tf.DType = tf.float32,
) -> tf.Tensor:
    """-log softmax(hidden table^T + bias) of the targets, float32 [n].

    0 where not active.

    Args:
      hidden: float32 [n, E].
      table: float32 [S, E].
      bias: float32 [S].
      targets: int32 [n], ids inside the cluster; anything where not active.
      active: bool [n], the rows that count; None = all.
      chunk_size: c; None = `chunk_rows` (static shapes: `CHUNK`), or all rows
        at once without `active`.
      pieces: the rows of the table, [s, E] each, which get its gradient one
        after another. `table` is then a function that gives all of it, without
        a gradient. None = `table` gets it, in one piece.
      dtype: of the activations that `hidden` was made of; bfloat16 = that of
        the gradient by the logits and of its matmuls, too (`tied.logits`).
    """
    computation = _computation(hidden, bias, targets, active, chunk_size, dtype)
    whole = table
    if pieces is None:
        table = tf.convert_to_tensor(table)
        whole, pieces = (lambda: table), [table]

    @tf.custom_gradient
    def run(hidden, bias, *pieces):
        losses, kept = computation.losses(hidden, whole(), bias)

        def gradient(upstream):
            with tf.control_dependencies([upstream]):
                again = whole()  # which may have been a copy
            own = Cluster(again, bias, [piece.shape[0] for piece in pieces])
            d_hidden, d_bias, d_pieces = computation.gradients(
                hidden, own, upstream, kept
            )
            return d_hidden, d_bias, *d_pieces

        return losses, gradient

    return run(hidden, tf.convert_to_tensor(bias), *pieces)


def _computation(hidden, bias, targets, active, chunk_size, dtype):
    """Which rows go at once: all, or chunks of those that count."""
    rows = hidden.shape[0] or tf.shape(hidden)[0]
    dtype = tied.gradient_type(dtype)
    if active is None and chunk_size is None:
        return _Whole(targets, dtype)
    exact = not static_only()
    chunk = chunk_rows(bias.shape[0]) if exact else CHUNK
    chunk = chunk_size or chunk
    if isinstance(rows, int):
        chunk = min(chunk, rows)
    order, inverse, count = None, None, rows
    if active is not None:
        later = tf.cast(tf.logical_not(active), tf.int32)
        order = tf.argsort(later, stable=True)  # [n]
        inverse = tf.argsort(order)  # [n]
        count = rows - tf.reduce_sum(later)
        targets = tf.where(active, targets, 0)
    return _Rows(rows, chunk, count, order, inverse, targets, exact, dtype)


def _forward(hidden, table, bias, targets, dtype):
    """Losses [k] and their gradients by the logits, [k, S] of `dtype`.

    The largest probability is 1 / sum of exp(z - max z), so it gives the
    logarithm of the sum without another pass; it is at least 1 / S.
    """
    logits = tf.matmul(hidden, table, transpose_b=True) + bias
    losses = tf.reduce_max(logits, 1)
    losses -= tf.gather(logits, targets, batch_dims=1)
    with tf.control_dependencies([losses]):  # then it may lie where they do
        probabilities = tf.nn.softmax(logits)
    losses -= tf.math.log(tf.reduce_max(probabilities, 1))
    with tf.control_dependencies([losses]):
        error = _less_targets(probabilities, targets)
        return losses, tf.cast(error, dtype)


def _less_targets(probabilities, targets):
    """probabilities [k, S] - one_hot(targets [k]), in training in place."""
    if not tied.scatters():
        return probabilities - tf.one_hot(targets, probabilities.shape[1])
    shape = tf.shape(probabilities)
    rows = tf.range(shape[0])
    # Places in the flat array are int32.
    fits = (probabilities.shape.num_elements() or 0) < 2**31
    if not (fits and tied.adds_in_place()):
        places = tf.stack([rows, targets], 1)
        ones = tf.ones_like(targets, probabilities.dtype)
        return tf.tensor_scatter_nd_sub(probabilities, places, ones)
    changed = tf.raw_ops.InplaceSub(
        x=tf.reshape(probabilities, [-1, 1]),
        i=rows * shape[1] + targets,
        v=tf.ones([shape[0], 1]),
    )
    return tf.reshape(changed, shape)


class Cluster(NamedTuple):
    """What gradients are taken of: table [S, E], bias [S], rows of pieces."""

    table: tf.Tensor
    bias: tf.Tensor
    sizes: list[int]


def _backward(error, hidden, cluster, upstream):
    """([k, E], [S], [[s, E]]) of the losses times `upstream` [k].

    Rows of width E are scaled, not those of the S logits.
    """
    scale, dtype = upstream[:, tf.newaxis], error.dtype  # [k, 1]
    d_hidden = tied.rows_gradient(error, cluster.table) * scale
    d_bias = tf.linalg.matvec(error, tf.cast(upstream, dtype), transpose_a=True)
    scaled, pieces, first = hidden * scale, [], 0
    # The largest last, each after the one before: then the error is free.
    for size in cluster.sizes:
        with tf.control_dependencies([d_hidden, d_bias, *pieces[-1:]]):
            part = scaled
            if len(cluster.sizes) == 1:
                piece = tied.table_gradient(error, part)
            else:
                columns = error[:, first : first + size]
                piece = tied.table_gradient(columns, part)
        pieces.append(piece)
        first += size
    return d_hidden, tf.cast(d_bias, tf.float32), pieces


@dataclasses.dataclass(frozen=True)
class _Whole:
    """All rows count and go at once."""

    targets: tf.Tensor  # int32 [n]
    dtype: tf.DType  # of the gradient by the logits

    def losses(self, hidden, table, bias):
        """(float32 [n], their gradient by the logits)."""
        return _forward(hidden, table, bias, self.targets, self.dtype)

    def gradients(self, hidden, cluster, upstream, kept):
        """Of the losses times `upstream` [n]: ([n, E], [S], pieces)."""
        return _backward(kept, hidden, cluster, upstream)


@dataclasses.dataclass(frozen=True)
class _Rows:
    """Which rows count, and the two loops over their chunks."""

    rows: int | tf.Tensor  # n
    chunk: int  # c
    count: int | tf.Tensor  # so many of the sorted rows count
    # int32 [n], the rows that count first; None = as they come
    order: tf.Tensor | None
    inverse: tf.Tensor | None  # where each row stands in `order`
    targets: tf.Tensor  # int32 [n]
    exact: bool  # no chunk has a row that does not count, and the first is kept
    dtype: tf.DType  # of the gradient by the logits

    def _sorted(self, x):
        """[n, ...] in the order of chunks, filled up where they need it."""
        x = x if self.order is None else tf.gather(x, self.order)
        return x if self.exact else _fill(x, -self.rows % self.chunk)

    def _piece(self, x, i):
        """Chunk i of what is sorted, [k, ...]."""
        start = i * self.chunk
        if self.exact:
            return x[start : tf.minimum(start + self.chunk, self.count)]
        # Of a size that XLA knows.
        begin = [start] + [0] * (x.shape.rank - 1)
        return tf.slice(x, begin, [self.chunk, *x.shape[1:]])

    def _counted(self, x, i):
        """[k] of chunk i, 0 for the rows that do not count."""
        if self.exact:
            return x
        row = i * self.chunk + tf.range(self.chunk)
        return tf.where(row < self.count, x, 0.0)

    def _unsorted(self, array):
        """C chunks [c, ...] -> [n, ...] in the rows' own order."""
        chunks = array.stack()
        flat = tf.reshape(chunks, [-1, *chunks.shape[2:]])[: self.rows]
        return flat if self.inverse is None else tf.gather(flat, self.inverse)

    def _array(self, *shape):
        """What chunks are written to; those never written are zeros."""
        return tf.TensorArray(
            tf.float32,
            size=-(-self.rows // self.chunk),
            element_shape=[self.chunk, *shape],
        )

    def _write(self, array, i, x):
        surplus = self.chunk - tf.shape(x)[0] if self.exact else 0
        return array.write(i, _fill(x, surplus))

    def _loop(self, body, *start):
        """Over the chunks; an exact first one is done already."""
        trips = -(-self.count // self.chunk)
        return tf.while_loop(
            lambda i, *_: i < trips,
            body,
            (tf.constant(int(self.exact)), *start),
            parallel_iterations=1,
        )[1:]

    def losses(self, hidden, table, bias):
        """(float32 [n], the first chunk's gradient by the logits if exact)."""
        hidden, targets = self._sorted(hidden), self._sorted(self.targets)

        def one(i):
            piece = self._piece(hidden, i)
            own = self._piece(targets, i)
            return _forward(piece, table, bias, own, self.dtype)

        def body(i, losses):
            return i + 1, self._write(losses, i, self._counted(one(i)[0], i))

        losses, kept = self._array(), None
        if self.exact:
            own, kept = one(0)
            losses = self._write(losses, 0, own)
        return self._unsorted(*self._loop(body, losses)), kept

    def gradients(self, hidden, cluster, upstream, kept):
        """Of the losses times `upstream` [n]: ([n, E], [S], pieces)."""
        hidden, targets = self._sorted(hidden), self._sorted(self.targets)
        upstream = self._sorted(upstream)

        def one(i, error):
            piece = self._piece(hidden, i)
            if error is None:
                own = self._piece(targets, i)
                table, bias = cluster.table, cluster.bias
                error = _forward(piece, table, bias, own, self.dtype)[1]
            scale = self._counted(self._piece(upstream, i), i)
            return _backward(error, piece, cluster, scale)

        def body(i, d_hidden, *sums):
            own, *more = one(i, None)
            d_hidden = self._write(d_hidden, i, own)
            sums = tf.nest.map_structure(tf.add, list(sums), more)
            return i + 1, d_hidden, *sums

        width = hidden.shape[1]
        d_hidden = self._array(width)
        sums = [
            tf.zeros_like(cluster.bias),
            [tf.zeros([size, width]) for size in cluster.sizes],
        ]
        if self.exact:
            own, *sums = one(0, kept)
            d_hidden = self._write(d_hidden, 0, own)
        d_hidden, *sums = self._loop(body, d_hidden, *sums)
        return self._unsorted(d_hidden), *sums


def _fill(x, surplus):
    """So many zeros after the rows."""
    return tf.pad(x, [[0, surplus]] + [[0, 0]] * (x.shape.rank - 1))
