"""Loss sums and denominators, float32; the caller divides once at the end.

Letters: B batch, P predictions, D model, V vocabulary, C chunks of c rows.
"""

import dataclasses

import tensorflow as tf

from modeling.ops import fused as fusion
from modeling.ops import tied
from modeling.ops.shapes import static_only


def token_losses(
    logits: tf.Tensor, targets: tf.Tensor, best: tf.Tensor | None = None
) -> tf.Tensor:
    """Cross-entropy of each row, float32 [...].

    TensorFlow's own, where operations must be deterministic, is made of many
    passes over the logits and a sum of segments for its gradient. This takes
    three, and one for the gradient.

    Args:
      logits: [..., V].
      targets: int [...].
      best: where the largest logit of each row is, int [...], if that is known:
        two further passes look for the largest values otherwise.
    """
    targets = tf.convert_to_tensor(targets)

    def picked(x, places):
        return tf.gather(x, places, batch_dims=targets.shape.rank)

    def largest(x):
        return tf.reduce_max(x, -1) if best is None else picked(x, best)

    @tf.custom_gradient
    def run(logits):
        probabilities = tf.nn.softmax(logits)
        # The largest is 1 / sum of exp(z - max z), at least 1 / V.
        losses = largest(logits) - picked(logits, targets)
        losses -= tf.math.log(largest(probabilities))

        def gradient(upstream):
            return _logit_gradient(probabilities, targets, upstream)

        return losses, gradient

    return run(tf.cast(logits, tf.float32))


@fusion.compiled
def _logit_gradient(probabilities, targets, upstream):
    """(probability - [is the target]) * upstream, [..., V]."""
    size = probabilities.shape[-1] or tf.shape(probabilities)[-1]
    places = tf.range(size, dtype=targets.dtype)  # [V]
    hit = tf.cast(places == targets[..., tf.newaxis], tf.float32)
    return (probabilities - hit) * upstream[..., tf.newaxis]


def weighted_sums(
    logits: tf.Tensor, targets: tf.Tensor, weights: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """(loss sum, weight sum, weighted count of right answers), float32.

    Of logits [..., V], targets int [...] and weights, 0 for slots that do not
    count.
    """
    weights = tf.cast(weights, tf.float32)
    best = tf.argmax(logits, -1, targets.dtype)
    # A program that XLA compiles as a whole looks for all of them in one pass.
    losses = token_losses(logits, targets, None if static_only() else best)
    right = tf.cast(tf.equal(best, targets), tf.float32)
    return (
        tf.reduce_sum(losses * weights),
        tf.reduce_sum(weights),
        tf.reduce_sum(right * weights),
    )


def chunked_lm_sums(
    hidden: tf.Tensor,
    table: tf.Tensor,
    bias: tf.Tensor,
    targets: tf.Tensor,
    weights: tf.Tensor,
    chunk_size: int,
    dtype: tf.DType = tf.float32,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """`weighted_sums` of tied logits without the whole [rows, V] at once.

    Only [c, V] is alive, forward and backward: the backward pass makes the
    logits of each chunk again.

    Args:
      hidden: float [rows, D].
      table: float32 [V, D], the tied embedding.
      bias: float32 [V].
      targets: int [rows].
      weights: [rows].
      chunk_size: c > 0.
      dtype: of the activations that `hidden` was made of (`tied.logits`).
    """
    if chunk_size < 1:
        raise ValueError(f"`chunk_size` must be > 0, received {chunk_size}")
    rows = tf.shape(hidden)[0] if hidden.shape[0] is None else hidden.shape[0]
    surplus = -rows % chunk_size  # rows of weight 0 fill the last chunk
    weights = tf.pad(tf.cast(weights, tf.float32), [[0, surplus]])
    weights = tf.reshape(weights, [-1, chunk_size])  # [C, c]
    targets = tf.reshape(tf.pad(targets, [[0, surplus]]), [-1, chunk_size])

    @tf.custom_gradient
    def run(hidden, table, bias):
        chunks = tf.pad(hidden, [[0, surplus], [0, 0]])
        chunks = tf.reshape(chunks, [-1, chunk_size, hidden.shape[-1]])
        computation = _Chunks(
            chunks, targets, weights, table, bias, tied.gradient_type(dtype)
        )

        def gradient(upstream, _):
            d_hidden, d_table, d_bias = computation.gradients(upstream)
            return d_hidden[:rows], d_table, d_bias

        return computation.sums(), gradient

    loss, right = run(
        tf.cast(hidden, tf.float32),
        tf.convert_to_tensor(table),
        tf.convert_to_tensor(bias),
    )
    return loss, tf.reduce_sum(weights), right


@dataclasses.dataclass(frozen=True)
class _Chunks:
    """The two loops of `chunked_lm_sums`, one chunk at a time."""

    hidden: tf.Tensor  # [C, c, D]
    targets: tf.Tensor  # [C, c]
    weights: tf.Tensor  # [C, c]
    table: tf.Tensor  # [V, D]
    bias: tf.Tensor  # [V]
    dtype: tf.DType  # of the gradient by the logits

    def _count(self):
        return self.hidden.shape[0] or tf.shape(self.hidden)[0]

    def _logits(self, i):
        product = tf.matmul(self.hidden[i], self.table, transpose_b=True)
        return product + self.bias  # [c, V]

    def _loop(self, body, *start):
        count = self._count()
        return tf.while_loop(
            lambda i, *_: i < count,
            body,
            (tf.constant(0), *start),
            parallel_iterations=1,
            maximum_iterations=count,
        )[1:]

    def sums(self):
        """(loss sum, right sum)."""

        def body(i, loss, right):
            sums = weighted_sums(
                self._logits(i), self.targets[i], self.weights[i]
            )
            return i + 1, loss + sums[0], right + sums[2]

        return self._loop(body, tf.constant(0.0), tf.constant(0.0))

    def gradients(self, upstream):
        """Of the loss sum: ([C * c, D], [V, D], [V])."""
        _, rows, dim = self.hidden.shape

        def body(i, d_hidden, d_table, d_bias):
            error = tf.nn.softmax(self._logits(i))
            error -= tf.one_hot(self.targets[i], self.bias.shape[0])
            error *= (upstream * self.weights[i])[:, tf.newaxis]  # [c, V]
            narrow = tf.cast(error, self.dtype)
            d_hidden = d_hidden.write(i, tied.rows_gradient(narrow, self.table))
            d_table += tied.table_gradient(narrow, self.hidden[i])
            return i + 1, d_hidden, d_table, d_bias + tf.reduce_sum(error, 0)

        d_hidden, d_table, d_bias = self._loop(
            body,
            tf.TensorArray(
                tf.float32, size=self._count(), element_shape=[rows, dim]
            ),
            tf.zeros_like(self.table),
            tf.zeros_like(self.bias),
        )
        return tf.reshape(d_hidden.stack(), [-1, dim]), d_table, d_bias
