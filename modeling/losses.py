"""Loss sums and denominators, float32; the caller divides once at the end.

Letters: B batch, P predictions, D model, V vocabulary, C chunks of c rows.
"""

import tensorflow as tf


def token_losses(logits: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
    """Cross-entropy of each row, float32 [...].

    Args:
      logits: [..., V].
      targets: int [...].
    """
    return tf.nn.sparse_softmax_cross_entropy_with_logits(
        targets, tf.cast(logits, tf.float32)
    )


def weighted_sums(
    logits: tf.Tensor, targets: tf.Tensor, weights: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """(loss sum, weight sum, weighted count of right answers), float32.

    Args:
      logits: [..., V].
      targets: int [...].
      weights: [...], 0 for slots that do not count.
    """
    weights = tf.cast(weights, tf.float32)
    losses = token_losses(logits, targets)
    best = tf.argmax(logits, -1, targets.dtype)
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
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """`weighted_sums` of tied logits without the whole [rows, V] at once.

    Only [c, V] is alive, forward and backward: the backward pass makes the
    logits of each chunk again.

    Args:
      hidden: float32 [rows, D].
      table: float32 [V, D], the tied embedding.
      bias: float32 [V].
      targets: int [rows].
      weights: [rows].
      chunk_size: c > 0.
    """
    if chunk_size < 1:
        raise ValueError(f"`chunk_size` must be > 0, received {chunk_size}")
    dim = hidden.shape[-1]
    rows = tf.shape(hidden)[0] if hidden.shape[0] is None else hidden.shape[0]
    surplus = -rows % chunk_size
    weights = tf.pad(tf.cast(weights, tf.float32), [[0, surplus]])
    weights = tf.reshape(weights, [-1, chunk_size])  # [C, c]
    targets = tf.reshape(tf.pad(targets, [[0, surplus]]), [-1, chunk_size])
    count = (rows + chunk_size - 1) // chunk_size

    def logits_of(chunk, table, bias):
        return tf.matmul(chunk, table, transpose_b=True) + bias  # [c, V]

    @tf.custom_gradient
    def run(hidden, table, bias):
        chunks = tf.reshape(
            tf.pad(hidden, [[0, surplus], [0, 0]]), [-1, chunk_size, dim]
        )  # [C, c, D]

        def forward(i, loss, right):
            logits = logits_of(chunks[i], table, bias)
            sums = weighted_sums(logits, targets[i], weights[i])
            return i + 1, loss + sums[0], right + sums[2]

        _, loss, right = tf.while_loop(
            lambda i, *_: i < count,
            forward,
            (tf.constant(0), tf.constant(0.0), tf.constant(0.0)),
            parallel_iterations=1,
            maximum_iterations=count,
        )

        def gradient(upstream, _):
            def backward(i, d_hidden, d_table, d_bias):
                logits = logits_of(chunks[i], table, bias)
                error = tf.nn.softmax(logits)
                error -= tf.one_hot(targets[i], bias.shape[0])
                error *= (upstream * weights[i])[:, tf.newaxis]  # [c, V]
                d_hidden = d_hidden.write(i, tf.matmul(error, table))
                d_table += tf.matmul(error, chunks[i], transpose_a=True)
                return (
                    i + 1,
                    d_hidden,
                    d_table,
                    d_bias + tf.reduce_sum(error, 0),
                )

            start = tf.TensorArray(
                tf.float32, size=count, element_shape=[chunk_size, dim]
            )
            _, d_hidden, d_table, d_bias = tf.while_loop(
                lambda i, *_: i < count,
                backward,
                (
                    tf.constant(0),
                    start,
                    tf.zeros_like(table),
                    tf.zeros_like(bias),
                ),
                parallel_iterations=1,
                maximum_iterations=count,
            )
            d_hidden = tf.reshape(d_hidden.stack(), [-1, dim])[:rows]
            return d_hidden, d_table, d_bias

        return (loss, right), gradient

    loss, right = run(
        tf.cast(hidden, tf.float32),
        tf.convert_to_tensor(table),
        tf.convert_to_tensor(bias),
    )
    return loss, tf.reduce_sum(weights), right
