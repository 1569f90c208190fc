"""Losses of ranking: of pairs, of lists, of single documents; float32.

B queries, C documents of each.
"""

import tensorflow as tf


def hinge(better: tf.Tensor, worse: tf.Tensor) -> tf.Tensor:
    """max(0, 1 - better + worse) of like shapes."""
    return tf.nn.relu(1.0 - better + worse)


def ranknet(better: tf.Tensor, worse: tf.Tensor) -> tf.Tensor:
    """log(1 + exp(worse - better)): Burges et al. 2005."""
    return tf.math.softplus(worse - better)


def pairwise(scores: tf.Tensor, grades: tf.Tensor, loss) -> tf.Tensor:
    """The mean loss over a query's pairs of unlike grades, [B].

    Of scores and grades [B, C]; the higher grade should score higher. A query
    whose grades are all equal has loss 0.
    """
    above = grades[:, :, tf.newaxis] > grades[:, tf.newaxis, :]  # [B, C, C]
    above = tf.cast(above, tf.float32)
    losses = loss(scores[:, :, tf.newaxis], scores[:, tf.newaxis, :])
    return tf.math.divide_no_nan(
        tf.reduce_sum(above * losses, [1, 2]), tf.reduce_sum(above, [1, 2])
    )


def softmax(scores: tf.Tensor, grades: tf.Tensor) -> tf.Tensor:
    """Cross-entropy with gains 2^g - 1 as the target distribution, [B].

    ListNet's top-one form (Cao et al. 2007). With one relevant document it is
    the usual contrastive loss; without any the loss is 0.
    """
    gains = tf.pow(2.0, tf.maximum(grades, 0.0)) - 1.0
    target = tf.math.divide_no_nan(
        gains, tf.reduce_sum(gains, -1, keepdims=True)
    )
    return -tf.reduce_sum(target * tf.nn.log_softmax(scores), -1)


def pointwise(scores: tf.Tensor, grades: tf.Tensor) -> tf.Tensor:
    """Sigmoid cross-entropy of "relevant" (grade > 0), mean of C, [B]."""
    relevant = tf.cast(grades > 0, tf.float32)
    losses = tf.nn.sigmoid_cross_entropy_with_logits(relevant, scores)
    return tf.reduce_mean(losses, -1)


def of_lists(name: str, scores: tf.Tensor, grades: tf.Tensor) -> tf.Tensor:
    """The loss of that name for scores and grades [B, C], [B].

    Raises ValueError: no such loss.
    """
    if name == "hinge":
        return pairwise(scores, grades, hinge)
    if name == "ranknet":
        return pairwise(scores, grades, ranknet)
    if name == "softmax":
        return softmax(scores, grades)
    if name == "pointwise":
        return pointwise(scores, grades)
    raise ValueError(f"`name` must be a ranking loss, received {name!r}")
