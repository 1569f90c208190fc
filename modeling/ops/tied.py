"""A table that is read twice: rows at one end of a model, all of it at the other.

Letters: V rows, E width, n rows of activations; any shape of ids.
"""

import tensorflow as tf

from modeling.ops.fused import few_shapes
from modeling.ops.shapes import static_only

# Operations whose results are the gradient of a table in whole.
_MAKERS = ("InplaceUpdate", "MatMul", "Cast")


def scatters() -> bool:
    """Whether single rows of a tensor are changed, not all by a one-hot matrix.

    A program that XLA compiles as a whole fuses the matrix with what comes
    next; on GPU a deterministic scatter would bring everything to the host.
    """
    return not static_only() and not tf.config.list_logical_devices("GPU")


def adds_in_place() -> bool:
    """Whether rows of a tensor that nobody else reads change where they lie.

    In training steps alone, which expect few shapes: what is exported holds
    operations that every server loads.
    """
    return scatters() and few_shapes()


def _fresh(x: tf.Tensor) -> bool:
    """Whether `x` was made for whoever asks, and is nobody else's.

    Zeros in place of a gradient that does not exist may be a constant of the
    graph, which must not change.
    """
    return not tf.executing_eagerly() and x.op.type in _MAKERS


def lookup(table: tf.Tensor, ids: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """(table[ids], table) of [V, E]: who needs the table later takes this one.

    The gradient of the rows is then added to that of the table where it lies.
    The sum of two gradients would first make a second table of the rows, zeros
    for the most part. The numbers are the same, bit for bit.
    """

    @tf.custom_gradient
    def run(table):
        def gradient(d_rows, d_table):
            flat = tf.reshape(d_rows, [-1, table.shape[1]])
            used, row_index = tf.unique(tf.reshape(ids, [-1]))
            # Once per id, before it meets the other gradient.
            sums = tf.math.unsorted_segment_sum(flat, row_index, tf.size(used))
            if _fresh(d_table):
                rows = tf.cast(used, tf.int32)
                return tf.raw_ops.InplaceAdd(x=d_table, i=rows, v=sums)
            return tf.tensor_scatter_nd_add(d_table, used[:, tf.newaxis], sums)

        return (tf.gather(table, ids), tf.identity(table)), gradient

    return run(table)


class Reader:
    """How an encoder looks rows up: `reader(table, ids)`, [V, E] -> [..., E].

    Args:
      tied: whether a tied head reads the tables later, in training. Where rows
        change in place both gradients then meet in one array (`lookup`).

    Attributes:
      tables: what the head takes instead of the variables, one per call; None
        where the gradients meet as those of any other variable.
    """

    def __init__(self, tied: bool):
        self._kept = [] if tied and adds_in_place() else None

    def __call__(self, table: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
        # A gather from the variable itself would make every later read (the
        # head's) a copy of the whole table.
        table = tf.convert_to_tensor(table)
        if self._kept is None:
            return tf.gather(table, ids)
        rows, table = lookup(table, ids)
        self._kept.append(table)
        return rows

    @property
    def tables(self) -> tuple[tf.Tensor, ...] | None:
        return None if self._kept is None else tuple(self._kept)


# Of a table whose gradient meets no other, or of a call outside of training.
PLAIN = Reader(tied=False)


def logits(hidden: tf.Tensor, table: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """hidden [n, E] @ table [V, E]^T, float32 [n, V].

    Logits stay float32 under every policy: rounded to bfloat16, one of 16 would
    be wrong by up to 0.06. Their gradient is made of probabilities, for which
    the activations' own type is enough.

    Args:
      hidden: float32.
      table: float32.
      dtype: of the activations that `hidden` was made of; bfloat16 = that of
        the gradient's matmuls, too.
    """
    dtype = gradient_type(dtype)
    if dtype == tf.float32:
        return tf.matmul(hidden, table, transpose_b=True)

    @tf.custom_gradient
    def run(hidden, table):
        def gradient(upstream):
            narrow = tf.cast(upstream, dtype)
            return rows_gradient(narrow, table), table_gradient(narrow, hidden)

        return tf.matmul(hidden, table, transpose_b=True), gradient

    return run(hidden, table)


def gradient_type(dtype: tf.DType) -> tf.DType:
    """In which the gradient of logits is computed, by the activations' type.

    float16 would lose probabilities below 6e-8.
    """
    return dtype if dtype == tf.bfloat16 else tf.float32


def rows_gradient(upstream: tf.Tensor, table: tf.Tensor) -> tf.Tensor:
    """[n, V] of any type, by the logits -> float32 [n, E]."""
    product = tf.matmul(upstream, tf.cast(table, upstream.dtype))
    return tf.cast(product, tf.float32)


def table_gradient(upstream: tf.Tensor, hidden: tf.Tensor) -> tf.Tensor:
    """[n, V] of any type, by the logits -> float32 [V, E]."""
    hidden = tf.cast(hidden, upstream.dtype)
    return tf.cast(tf.matmul(upstream, hidden, transpose_a=True), tf.float32)
